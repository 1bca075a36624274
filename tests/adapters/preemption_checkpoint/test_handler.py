"""The handler in use: what it saves, what it survives, and what it says when it cannot."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.cluster import run_workers
from tests.adapters.preemption_checkpoint.training import (
    Told,
    Training,
    files,
    send,
    told_by,
)
from tfdist_kit import WorkerLostError

HERE = __name__
TRAIN = "tests.adapters.preemption_checkpoint.training:train"


def run(function: str, folder: Path, **kwargs: Any) -> list[Any]:
    return run_workers(f"{HERE}:{function}", folder=str(folder), timeout=60, **kwargs)


# Steps that fail


class Unprintable(Exception):
    """An error that cannot be turned into text."""

    def __str__(self) -> str:
        raise TypeError("no text")


def failing(folder: str, kind: str) -> tuple[Told, float]:
    """One step of rank 1 raises; how long until this worker knows."""
    training = Training()
    handler = training.handler(folder)
    began = time.monotonic()

    def step() -> Any:
        if training.rank == 1:
            kinds = {"ValueError": ValueError, "SystemExit": SystemExit, "Unprintable": Unprintable}
            raise kinds[kind]("wrong")
        return training.one_step()

    def act(_: Told) -> None:
        nonlocal began
        handler.run(training.one_step)
        began = time.monotonic()
        handler.run(step)

    told = told_by(act)
    return told, time.monotonic() - began


@pytest.mark.parametrize("kind", ["ValueError", "SystemExit", "Unprintable"])
def test_an_error_that_is_not_tensorflows_reaches_the_peers_at_once(
    kind: str, tmp_path: Path
) -> None:
    (peer, seconds), (failed, _) = run("failing", tmp_path, kind=kind)
    text = "<no text: its __str__ failed>" if kind == "Unprintable" else "wrong"
    assert failed.error == f"{kind}: {text}" or failed.code == "wrong"
    assert f"worker:1 raised {kind}: {text}" in peer.error
    assert seconds < 5.0  # alone, they learn of it when that process has been torn down


def out_of_data(folder: str, batches: dict[int, int]) -> Told:
    import tensorflow as tf

    training = Training()
    handler = training.handler(folder, meet_within=2.0)

    def act(told: Told) -> None:
        told.facts["epochs"] = []
        for _ in range(2):
            iterator = iter(tf.data.Dataset.range(batches[training.rank]))
            made = 0

            def step(iterator: Any = iterator) -> Any:
                next(iterator)
                return training.one_step()

            try:
                while True:
                    handler.run(step)
                    made += 1
            except (tf.errors.OutOfRangeError, StopIteration):
                told.facts["epochs"].append(made)
        handler.finish_training()
        told.runs = handler.total_run_calls

    return told_by(act)


def test_the_end_of_the_data_ends_an_epoch_and_not_the_cluster(tmp_path: Path) -> None:
    for told in run("out_of_data", tmp_path, batches={0: 3, 1: 3}):
        assert (told.error, told.facts["epochs"], told.runs) == ("", [3, 3], 6)


def test_data_that_ends_on_one_worker_alone_is_an_error_on_all(tmp_path: Path) -> None:
    peer, short = run("out_of_data", tmp_path, batches={0: 3, 1: 2})
    assert "the data of worker:1 ends after 2 steps" in short.error
    assert "worker:1" in peer.error


# Workers that do not do as the others


def stops_early(folder: str) -> tuple[Told, float]:
    """Rank 0 makes no more steps; rank 1 is told to go."""
    training = Training(collective=False)
    handler = training.handler(folder, meet_within=1.0)

    def act(told: Told) -> None:
        for number in range(1000 if training.rank else 3):
            if number == 5:
                send()
            handler.run(training.one_step)
            time.sleep(0.005)

    began = time.monotonic()
    told = told_by(act)
    if training.rank == 0:
        time.sleep(3.0)
    return told, time.monotonic() - began


def test_a_worker_that_has_stopped_calling_run_is_named(tmp_path: Path) -> None:
    _, (told, seconds) = run("stops_early", tmp_path)
    assert "worker:0 did not call run(), save() or finish_training() within 1 s" in told.error
    assert seconds < 10.0


def unequal(folder: str) -> Told:
    training = Training(collective=False)
    handler = training.handler(folder)

    def act(told: Told) -> None:
        for _ in range(3 + training.rank):
            handler.run(training.one_step)
        handler.finish_training()

    return told_by(act)


def test_unequal_numbers_of_steps_are_told_at_the_end(tmp_path: Path) -> None:
    for told in run("unequal", tmp_path):
        assert "not made equally many steps (worker:0: 3, worker:1: 4)" in told.error


# After the training


def evaluating(folder: str, after_training: str, rank: int) -> Told:
    training = Training()
    handler = training.handler(folder, after_training=after_training)

    def act(told: Told) -> None:
        with handler:
            handler.run(training.one_step)
        if training.rank == rank:
            send()
        for _ in range(150):
            time.sleep(0.01)
        told.facts["evaluated"] = True

    told = told_by(act)
    told.step = handler.total_run_calls
    return told


@pytest.mark.parametrize("rank", [0, 1])
def test_a_notice_after_the_training_ends_all_of_them(rank: int, tmp_path: Path) -> None:
    for told in run("evaluating", tmp_path, after_training="exit", rank=rank):
        assert (told.code, told.facts) == (42, {})
    assert "ckpt-1.index" in files(tmp_path)


def test_or_nothing_if_so_chosen(tmp_path: Path) -> None:
    for told in run("evaluating", tmp_path, after_training="finish", rank=1):
        assert (told.code, told.facts) == (None, {"evaluated": True})


def slow_to_read(folder: str, after: bool) -> float:
    """When rank 0 leaves, or when rank 1 has read the last that it needs from there."""
    from tfdist_kit.adapters._keys import Keys

    training = Training()
    handler = training.handler(folder)
    read, times = Keys.get, []

    def reads_late(self: Keys, key: str, seconds: float) -> str | None:
        if key.endswith("begun/0/0" if after else "saved/0/0"):
            time.sleep(0.5)
            times.append(time.monotonic())
        return read(self, key, seconds)

    if training.rank == 1:
        Keys.get = reads_late  # type: ignore[method-assign]

    def go_on(_: Told) -> None:
        handler.run(training.one_step)
        if after:
            handler.finish_training()
            training.one_step()  # until all have
        send()
        for _step in range(3):
            time.sleep(5.0) if after else handler.run(training.one_step)

    told_by(go_on)
    return times[-1] if times else time.monotonic()


@pytest.mark.parametrize("after", [False, True], ids=["after a save", "after the training"])
def test_the_chief_leaves_when_all_have_read_what_it_keeps(after: bool, tmp_path: Path) -> None:
    left, read = run("slow_to_read", tmp_path, after=after)
    assert left > read


def impatient(folder: str) -> Told:
    training = Training()
    handler = training.handler(folder, patience=0.3)

    def act(told: Told) -> None:
        handler.run(training.one_step)
        send()
        for _ in range(500):
            time.sleep(0.01)
        told.facts["went on"] = True

    return told_by(act)


def test_who_never_comes_to_save_leaves_when_patience_is_over(tmp_path: Path) -> None:
    for told in run("impatient", tmp_path):
        assert (told.code, told.facts) == (42, {})
    assert "checkpoint" not in files(tmp_path)


def stuck(folder: str) -> Told:
    """Rank 1 does not come to the end of its step, in which the other one waits for it."""
    training = Training()
    handler = training.handler(folder, patience=0.3, leave_within=1.0)

    def step() -> None:
        if training.rank == 1:
            send()
            time.sleep(5)
        training.one_step()

    return told_by(lambda _: handler.run(step))


def test_whose_peer_leaves_without_a_save_leaves_in_the_same_way(tmp_path: Path) -> None:
    with pytest.raises(WorkerLostError, match=r"rank 0 .* exit code 42"):
        run("stuck", tmp_path)


# Grace, watchers and other catchers


def test_the_last_save_is_done_within_the_grace_period(tmp_path: Path) -> None:
    began = time.monotonic()
    stopped = run_workers(
        TRAIN,
        timeout=60,
        folder=str(tmp_path),
        blows={1: [(5, signal.SIGTERM)]},
        pause={0: 0.005},
        steps=100_000,
        grace_period=3.0,
    )
    assert time.monotonic() - began < 20.0
    assert [told.code for told in stopped] == [42, 42]
    [step] = {told.step for told in stopped}
    assert step > 10
    assert "ckpt-2.index" in files(tmp_path)
    assert "ckpt-3.index" not in files(tmp_path)


def watched(folder: str, *, raises: bool) -> Told:
    """A watcher that fires, or that only ever raises while SIGTERM comes beside it."""
    training = Training()

    def watcher() -> bool:
        if raises:
            raise OSError("no route to the metadata server")
        return training.rank == 1 and bool(training.step.numpy() >= 3)

    handler = training.handler(folder, termination_watcher_fn=watcher)

    def act(told: Told) -> None:
        while training.step.numpy() < 5000:
            if raises and training.rank == 1 and training.step.numpy() == 300:
                send()
            handler.run(training.one_step)
            training.step.assign_add(1)
            time.sleep(0.002)

    told = told_by(act)
    told.step = int(training.step.numpy())
    return told


@pytest.mark.parametrize("raises", [False, True], ids=["fires", "raises"])
def test_a_watcher_is_asked_and_sigterm_counts_beside_it(raises: bool, tmp_path: Path) -> None:
    told = run("watched", tmp_path, raises=raises)
    assert [of.code for of in told] == [42, 42]
    assert told[0].step == told[1].step < 5000


def stock_strategy(folder: str) -> Told:
    """TensorFlow's own catcher gets the signal: it came before there was a handler."""
    training = Training(stock=True)
    if training.rank == 1:
        send()
        time.sleep(0.5)
    handler = training.handler(folder)

    def act(told: Told) -> None:
        for _ in range(5000):
            handler.run(training.one_step)
            time.sleep(0.002)

    return told_by(act)


def test_what_tensorflow_caught_before_the_handler_was_made_is_not_lost(tmp_path: Path) -> None:
    assert [told.code for told in run("stock_strategy", tmp_path)] == [42, 42]


def on_tpu(folder: str) -> str:
    """As far as it can be had without one: a strategy that has not been initialised."""
    from types import SimpleNamespace

    import tensorflow as tf

    import tfdist_kit

    strategy = object.__new__(tf.distribute.TPUStrategy)
    strategy._extended = SimpleNamespace(_tpu_cluster_resolver=None)
    checkpoint = tf.train.Checkpoint(step=tf.Variable(1))
    return type(tfdist_kit.preemption_checkpoint_handler(strategy, checkpoint, folder)).__module__


def test_a_strategy_on_tpus_is_served_by_tensorflows_own_class(tmp_path: Path) -> None:
    [module] = run("on_tpu", tmp_path, workers=0)
    assert module.startswith("tensorflow.")


# What is saved


def failing_save(folder: str) -> tuple[Told, str]:
    training = Training()
    broken = False

    def save() -> None:
        if broken and training.rank == 0:
            raise OSError(28, "No space left on device")
        if training.rank == 0:
            training.checkpoint.save(f"{folder}/ckpt")

    handler = training.handler(folder, save_fn=save)
    handler.run(training.one_step)
    handler.save()
    broken = True
    told = told_by(lambda _: handler.save())
    import tensorflow as tf

    return told, Path(tf.train.latest_checkpoint(folder) or "").name


def test_a_save_that_fails_on_one_worker_is_an_error_on_all(tmp_path: Path) -> None:
    for told, latest in run("failing_save", tmp_path):
        assert "CheckpointError: TFD070: worker:0 could not save to" in told.error
        assert "No space left on device" in told.error
        assert latest == "ckpt-1"


def own_states(folder: str, steps: int, own: bool = True) -> Told:
    """Each worker has data of its own, of which it must go on where it was."""
    import tensorflow as tf

    training = Training()
    data = tf.data.Dataset.range(100 * training.rank, 100 * training.rank + 100)
    iterator = iter(data.shuffle(20, seed=training.rank))
    per_worker = tf.train.Checkpoint(iterator=iterator) if own else None

    def act(told: Told) -> None:
        told.facts["seen"] = seen = []
        handler = training.handler(folder, per_worker=per_worker)
        told.restored = int(training.step.numpy())

        def step() -> None:
            seen.append(int(next(iterator).numpy()))
            training.one_step()

        for number in range(told.restored, steps):
            if number == 5 and told.restored == 0 and steps > 5:
                send()
            handler.run(step)
            training.step.assign_add(1)
            if number % 2:
                handler.save()

    return told_by(act)


def test_each_workers_own_state_goes_on_where_it_was(tmp_path: Path) -> None:
    stopped = run("own_states", tmp_path / "a", steps=12)
    resumed = run("own_states", tmp_path / "a", steps=12)
    whole = run("own_states", tmp_path / "b", steps=5)
    for before, after, first in zip(stopped, resumed, whole, strict=True):
        assert before.code == 42
        assert (after.error, after.restored) == ("", len(before.facts["seen"]))
        assert before.facts["seen"][:5] == first.facts["seen"]
        assert len(set(before.facts["seen"] + after.facts["seen"])) == 12
    kept = sorted((tmp_path / "a" / "per_worker" / "worker_1").glob("*.index"))
    assert [path.name for path in kept] == ["at-12.index"]


def test_a_missing_state_of_a_worker_is_told(tmp_path: Path) -> None:
    run("own_states", tmp_path, steps=2, own=False)
    for told in run("own_states", tmp_path, steps=4):
        assert "this worker has no state of its own for it" in told.error


def one_missing(folder: str) -> Told:
    """The state of one worker alone is lost."""
    import tensorflow as tf

    training = Training()
    own = tf.train.Checkpoint(v=tf.Variable(1))
    handler = training.handler(folder, per_worker=own)
    handler.save()
    handler.close()
    for file in Path(folder, "per_worker", f"worker_{training.rank}").iterdir():
        if training.rank == 1:
            file.unlink()
    return told_by(lambda _: training.handler(folder, per_worker=own))


def test_what_one_worker_cannot_restore_is_an_error_on_all(tmp_path: Path) -> None:
    first, second = run("one_missing", tmp_path)
    assert "UsageError: TFD001: worker:1: the checkpoint stands at run 0" in first.error
    assert first.error == second.error


def counted(folder: str) -> dict[str, Any]:
    """Aggregated variables, managers, what killed processes left, and a second handler."""
    import tensorflow as tf

    import tfdist_kit

    training = Training()
    with training.strategy.scope():
        seen = tf.Variable(
            0.0,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.SUM,
        )
    checkpoint = tf.train.Checkpoint(seen=seen, step=training.step)
    manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=3)
    make = tfdist_kit.preemption_checkpoint_handler
    handler = make(training.strategy, manager)
    count = tf.function(lambda: training.strategy.run(lambda: seen.assign_add(1.0)))
    for _ in range(5):
        handler.run(count)
        handler.save()
    handler.close()
    again = make(training.strategy, manager)
    again.run(count)
    runs = again.total_run_calls
    again.close()
    saved = tf.train.load_variable(folder, "seen/.ATTRIBUTES/VARIABLE_VALUE")
    return {"saved": float(saved), "runs": runs, "files": files(Path(folder))}


def test_variables_are_aggregated_and_managers_keep_what_they_keep(tmp_path: Path) -> None:
    left = ("ckpt-9_temp", "workertemp_worker_1", "workertemp_worker_7")
    for name in left:
        (tmp_path / name).mkdir()
        (tmp_path / name / "part").write_text("left by a killed process")
    (tmp_path / "probe_results").mkdir()
    for told in run("counted", tmp_path):
        assert told["saved"] == 10.0
        assert told["runs"] == 6
    kept = [name for name in files(tmp_path) if name.endswith(".index")]
    assert kept == ["ckpt-3.index", "ckpt-4.index", "ckpt-5.index"]
    assert not set(files(tmp_path)) & set(left)
    assert (tmp_path / "probe_results").is_dir()


def watching_again(folder: str) -> Told:
    """`watch_preemption` is called where a handler watches already."""
    import tfdist_kit

    training = Training()

    def act(told: Told) -> None:
        handler = training.handler(folder)
        tfdist_kit.watch_preemption()
        handler.run(training.one_step)
        send()
        time.sleep(0.1)
        handler.run(training.one_step)

    return told_by(act)


def test_watching_later_takes_no_notice_from_the_handler(tmp_path: Path) -> None:
    [told] = run("watching_again", tmp_path, workers=0)
    assert (told.code, told.error) == (42, "")
    assert "ckpt-1.index" in files(tmp_path)


def raising() -> None:
    raise RuntimeError("wrong")


def test_an_exit_fn_that_raises_does_not_change_how_the_process_leaves(tmp_path: Path) -> None:
    blows = {0: [(2, signal.SIGTERM)]}
    [told] = run_workers(TRAIN, workers=0, folder=str(tmp_path), blows=blows, exit_fn=raising)
    assert (told.code, told.error) == (42, "")
