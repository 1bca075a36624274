"""One save and one restore by all workers: what is written, when, and what becomes of failures."""

from __future__ import annotations

import contextlib
import functools
import os
import resource
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.cluster import cluster, run_cluster, run_workers
from tfdist_kit import WorkerLostError

HERE = "tests.adapters.test_checkpoint"
ROUNDS = 12
AGGREGATIONS = ("SUM", "MEAN", "ONLY_FIRST_REPLICA")


# In the workers


def start(api: Any = "v2", heartbeat: float | None = None) -> Any:
    """The strategy of this process; none outside a cluster."""
    from tfdist_kit import multi_worker_mirrored

    if os.environ.get("TF_CONFIG"):
        return multi_worker_mirrored(api=api, heartbeat_timeout=heartbeat)
    return None


def task(strategy: Any) -> int:
    return int(strategy.cluster_resolver.task_id) if strategy else 0


def scope(strategy: Any) -> Any:
    return strategy.scope() if strategy else contextlib.nullcontext()


def keras_model(strategy: Any, *, on_read: bool = False) -> Any:
    import keras

    class Counting(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
        def build(self, _: Any) -> None:
            self.seen = self.add_weight(shape=(400, 400), initializer="zeros", trainable=False)
            if on_read:
                self.seen = keras.Variable(
                    "zeros",
                    shape=(400, 400),
                    trainable=False,
                    aggregation="sum",
                    synchronization="on_read",
                )

        def call(self, x: Any) -> Any:
            return x

    keras.utils.set_random_seed(1)
    with scope(strategy):
        model = keras.Sequential([keras.Input((2,)), Counting(), keras.layers.Dense(3)])
        model.compile("adam", "mse")
        model.optimizer.build(model.trainable_variables)
    return model


def fill(model: Any, value: float) -> None:
    model.layers[-1].bias.assign([value] * 3)


def bias(model: Any) -> list[float]:
    return [float(number) for number in model.layers[-1].bias.numpy()]


def left_in(folder: str) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*"))


def own_temps() -> list[str]:
    return [str(path) for path in Path(tempfile.gettempdir()).glob("*tfdist-save*")]


def refusal(call: Callable[[], Any]) -> list[str]:
    """The class and the text of the error that a call raises."""
    from tfdist_kit import TfdistError

    with pytest.raises(TfdistError) as error:
        call()
    return [type(error.value).__name__, str(error.value)]


def in_a_function(call: Callable[[], Any]) -> list[str]:
    import tensorflow as tf

    with tf.Graph().as_default():
        return refusal(call)


def race(folder: str, rounds: int) -> list[list[float]]:
    """Many saves of each kind in a row over the same path, each read back by each worker."""
    import tensorflow as tf

    from tfdist_kit.adapters.checkpoint import restore, save

    strategy = start()
    with scope(strategy):
        variable = tf.Variable([0.0] * 1000)
    module = tf.Module()
    module.variable = variable
    model = keras_model(strategy)
    checkpoint = tf.train.Checkpoint(variable=variable)
    manager = tf.train.CheckpointManager(checkpoint, f"{folder}/manager", max_to_keep=2)
    seen = []
    for number in range(rounds):
        variable.assign([float(number)] * 1000)
        fill(model, float(number))
        save(strategy, module, f"{folder}/saved_model")
        save(strategy, model, f"{folder}/model.keras")
        save(strategy, model, f"{folder}/model.weights.h5")
        save(strategy, checkpoint, f"{folder}/bare/ckpt")
        assert save(strategy, manager) == f"{folder}/manager/ckpt-{2 * number + 2}"
        read = [
            float(tf.saved_model.load(f"{folder}/saved_model").variable[0]),
            float(tf.train.load_variable(f"{folder}/bare", NAME)[0]),
            float(tf.train.load_variable(f"{folder}/manager", NAME)[0]),
        ]
        for path in ("model.keras", "model.weights.h5"):
            fill(model, -1.0)
            restore(strategy, model, f"{folder}/{path}")
            read.append(bias(model)[0])
        for target, where in ((checkpoint, f"{folder}/bare/ckpt"), (manager, None)):
            variable.assign([-1.0] * 1000)
            assert restore(strategy, target, where) is not None
            read.append(float(variable.numpy()[0]))
        seen.append(read)
    save(strategy, model, f"{folder}/exported")
    assert own_temps() == [], own_temps()
    exported = tf.saved_model.load(f"{folder}/exported")
    assert float(exported.serve([[0.0, 0.0]])[0][0]) == rounds - 1
    return seen


NAME = "variable/.ATTRIBUTES/VARIABLE_VALUE"


def on_read(folder: str, api: str) -> dict[str, list[float]]:
    """What is in the file, and the sum over the workers of what each of them restores."""
    import tensorflow as tf

    from tfdist_kit.adapters.checkpoint import restore, save

    strategy = start(api)
    with scope(strategy):
        variables = {
            name: tf.Variable(
                0.0,
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=getattr(tf.VariableAggregation, name),
            )
            for name in AGGREGATIONS
        }
    checkpoint = tf.train.Checkpoint(**variables)
    module = tf.Module()
    module.variables_of_it = variables

    def assign(value: float) -> None:
        strategy.run(lambda: [each.assign(value) for each in variables.values()])

    def own() -> list[float]:
        read = tf.function(lambda: [tf.identity(each) for each in variables.values()])
        return [float(value) for value in strategy.run(read)]

    rank = int(os.environ["TFDIST_RANK"])
    assign(rank + 1.0)
    path = save(strategy, checkpoint, f"{folder}/on_read")
    save(strategy, module, f"{folder}/module")
    name = ".ATTRIBUTES/VARIABLE_VALUE"
    stored = [float(tf.train.load_variable(path, f"{each}/{name}")) for each in AGGREGATIONS]
    loaded = tf.saved_model.load(f"{folder}/module").variables_of_it
    assign(100.0)
    restore(strategy, checkpoint, path)
    return {
        "stored": stored,
        "module": [float(loaded[each]) for each in AGGREGATIONS],
        "own": own(),
    }


@contextlib.contextmanager
def largest_file(size: int) -> Iterator[None]:
    """A disk that takes no more than `size` bytes of a file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def full_disks(folder: str) -> list[Any]:
    """Each kind of save on a disk that is full on one worker; then again with room."""
    import tensorflow as tf

    from tfdist_kit.adapters.checkpoint import save

    strategy = start()
    with scope(strategy):
        variable = tf.Variable([1.0] * 100_000)
    module = tf.Module()
    module.variable = variable
    model = keras_model(strategy, on_read=True)
    checkpoint = tf.train.Checkpoint(variable=variable)
    manager = tf.train.CheckpointManager(
        checkpoint, f"{folder}/manager", 2, step_counter=checkpoint.save_counter,
        checkpoint_interval=1,
    )  # fmt: skip
    things: list[tuple[Any, str | None]] = [
        (module, f"{folder}/saved_model"),
        (model, f"{folder}/model.keras"),
        (model, f"{folder}/model.weights.h5"),
        (checkpoint, f"{folder}/bare/ckpt"),
        (manager, None),
    ]
    for target, path in things:
        save(strategy, target, path)
    told = []
    is_chief = task(strategy) == 0  # who has cleared away when it returns; the others may see it
    for full in (0, 1):
        for target, path in things:
            before = left_in(folder) if is_chief else []
            with largest_file(20_000) if task(strategy) == full else contextlib.nullcontext():
                told.append(refusal(functools.partial(save, strategy, target, path)))
            after = left_in(folder) if is_chief else []
            assert after == before, f"{path}: {set(after) ^ set(before)}"
    whole = [
        float(tf.train.load_variable(f"{folder}/{each}", NAME)[0]) for each in ("bare", "manager")
    ]
    for target, path in things:
        assert save(strategy, target, path) is not None
    return [told, whole, own_temps()]


def refused(folder: str) -> dict[str, Any]:
    """Calls that cannot work, each of which must fail alike on all workers."""
    import tensorflow as tf

    from tfdist_kit.adapters.checkpoint import restore, save

    strategy = start()
    rank = task(strategy)
    with scope(strategy):
        variable = tf.Variable(1.0)
    checkpoint = tf.train.Checkpoint(variable=variable)
    model = keras_model(strategy)
    manager = tf.train.CheckpointManager(checkpoint, f"{folder}/file/below", max_to_keep=1)
    other = tf.train.Checkpoint(variable=variable, more=tf.Variable(1.0))

    def breaks(path: str) -> None:
        Path(path).write_text("half")
        if rank == 1:
            raise ValueError("no more ink")

    def saves(*args: Any, **kwargs: Any) -> list[str]:
        return refusal(lambda: save(strategy, *args, **kwargs))

    def restores(*args: Any, **kwargs: Any) -> list[str]:
        return refusal(lambda: restore(strategy, *args, **kwargs))

    save(strategy, checkpoint, f"{folder}/good/ckpt")
    return {
        "below a file": saves(model, f"{folder}/file/model.keras"),
        "checkpoint below a file": saves(checkpoint, f"{folder}/file/ckpt"),
        "manager below a file": saves(manager),
        "end": saves(model, f"{folder}/model.pb"),
        "remote": saves(model, "gs://bucket/model.keras"),
        "no path": saves(model),
        "a number for a path": saves(checkpoint, 5 if rank else f"{folder}/good/ckpt"),
        "a text for a deadline": saves(checkpoint, f"{folder}/good/ckpt", deadline="5"),
        "a resolver": refusal(
            lambda: save(strategy.cluster_resolver, checkpoint, f"{folder}/good/ckpt")
        ),
        "path for a manager": saves(manager, f"{folder}/ckpt"),
        "no name": saves(model, ".."),
        "options": saves(checkpoint, f"{folder}/good/ckpt", options=None),
        "manager's options": saves(manager, options=None),
        "no target": saves(3, f"{folder}/three"),
        "only one worker": saves(model if rank else 3, f"{folder}/model.keras"),
        "other paths": saves(checkpoint, f"{folder}/good/of-{rank}"),
        "other calls": refusal(
            lambda: (
                save(strategy, checkpoint, f"{folder}/good/ckpt")
                if rank
                else restore(strategy, checkpoint, f"{folder}/good/ckpt")
            )
        ),
        "a part fails": saves(breaks, f"{folder}/good/text"),
        "in a function": in_a_function(lambda: save(strategy, checkpoint, "x")),
        "lacks": restores(other, f"{folder}/good/ckpt"),
        "in part": restore(strategy, other, f"{folder}/good/ckpt", partial=True),
        "nothing yet": restore(strategy, checkpoint, f"{folder}/none/ckpt"),
        "not weights": restores(model, f"{folder}/saved_model"),
        "not restorable": restores(3, f"{folder}/three"),
        "left": left_in(f"{folder}/good"),
    }


def absent(folder: str) -> list[Any]:
    """A worker that comes to each save after the others have given it up."""
    import tensorflow as tf

    from tfdist_kit.adapters.checkpoint import save

    strategy = start()
    checkpoint = tf.train.Checkpoint(variable=tf.Variable(1.0))
    begun = time.monotonic()
    told = []
    for late in (1, 0):
        if task(strategy) == late:
            wait_for(Path(folder, f"given-up-{late}"))
        told.append(refusal(lambda: save(strategy, checkpoint, f"{folder}/ckpt", deadline=0.5)))
        Path(folder, f"given-up-{late}").touch()
    return [told, time.monotonic() - begun, save(strategy, checkpoint, f"{folder}/ckpt")]


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, path
        time.sleep(0.01)


def killed(folder: str) -> None:
    """The chief dies in the middle of a save over something that is there."""
    from tfdist_kit.adapters.checkpoint import save

    strategy = start()

    def write(path: str) -> None:
        os.mkdir(path)
        Path(path, "part").write_text("new")
        if Path(folder, "whole").exists() and task(strategy) == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    save(strategy, write, f"{folder}/whole")
    save(strategy, write, f"{folder}/whole", deadline=60)


def after_the_kill(folder: str) -> list[str]:
    from tfdist_kit.adapters.checkpoint import save

    def write(path: str) -> None:
        Path(path).mkdir()
        Path(path, "part").write_text("newer")

    before = Path(folder, "whole", "part").read_text()
    save(start(), write, f"{folder}/whole")
    return [before, Path(folder, "whole", "part").read_text(), *left_in(folder)]


def dies_between(folder: str) -> str:
    """A peer dies after it was ready to write."""
    import tensorflow as tf

    from tfdist_kit.adapters.checkpoint import save

    strategy = start(heartbeat=1.0)

    def write(path: str) -> None:
        if task(strategy) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        Path(path).touch()

    with pytest.raises(tf.errors.UnavailableError) as error:
        save(strategy, write, f"{folder}/file")
    Path(folder, "told").write_text(str(error.value))
    return ""


def alone(folder: str, mirrored: bool) -> list[Any]:
    """Without a cluster: the same calls."""
    import tensorflow as tf

    from tfdist_kit.adapters.checkpoint import restore, save

    strategy = tf.distribute.MirroredStrategy() if mirrored else None
    with scope(strategy):
        variable = tf.Variable(1.0)
    checkpoint = tf.train.Checkpoint(variable=variable)
    manager = tf.train.CheckpointManager(checkpoint, f"{folder}/manager", max_to_keep=1)
    Path(folder, "manager", "ckpt-9_temp").mkdir(parents=True)  # of a writer that was killed
    paths = [save(strategy, manager) for _ in range(2)]
    variable.assign(3.0)
    restore(strategy, manager)
    nowhere = refusal(lambda: save(strategy, lambda path: 1 / 0, f"{folder}/nothing"))
    return [paths, float(variable.numpy()), nowhere, left_in(folder)]


# In pytest


@pytest.mark.parametrize("workers", [2, 3])
def test_every_worker_reads_what_was_saved_last(tmp_path: Path, workers: int) -> None:
    rounds = ROUNDS if workers == 2 else 4
    expected = [[float(number)] * 7 for number in range(rounds)]
    results = run_workers(f"{HERE}:race", workers=workers, folder=str(tmp_path), rounds=rounds)
    assert results == [expected] * workers
    assert not [name for name in left_in(str(tmp_path)) if "tfdist" in name or "_temp" in name]
    kept = {Path(name).stem for name in left_in(str(tmp_path / "manager"))}
    assert kept == {"checkpoint", f"ckpt-{2 * rounds - 2}", f"ckpt-{2 * rounds}"}


@pytest.mark.parametrize("api", ["v2", "compat.v1"])
def test_variables_of_each_replica_are_aggregated(tmp_path: Path, api: str) -> None:
    layout = ("chief", "worker", "worker") if api == "v2" else ("worker",) * 3
    results = run_cluster(f"{HERE}:on_read", layout, folder=str(tmp_path), api=api)
    for result in results:
        assert result["stored"] == result["module"] == [6.0, 2.0, 1.0]
        assert result["own"] == [2.0, 2.0, 1.0]  # which add up to what was saved


def test_a_full_disk_of_one_worker_fails_on_all_and_harms_nothing(tmp_path: Path) -> None:
    first, second = run_workers(f"{HERE}:full_disks", folder=str(tmp_path))
    assert first == second
    told, whole, temps = first
    assert temps == []
    assert whole == [1.0, 1.0]
    assert [name for name, _ in told] == ["CheckpointError"] * 10
    names = ["saved_model", "model.keras", "model.weights.h5", "bare/ckpt", "manager"]
    for number, (_, text) in enumerate(told):
        assert f"{tmp_path}/{names[number % 5]} was not saved on worker:{number // 5}: " in text


def test_what_cannot_work_is_refused_alike_on_all_workers(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    first, second = run_workers(f"{HERE}:refused", folder=str(tmp_path))
    assert first == second
    below = "was not saved on worker:0: FileExistsError"
    expected = {
        "below a file": ("UsageError", f"model.keras {below}"),
        "checkpoint below a file": ("UsageError", f"ckpt {below}"),
        "manager below a file": ("UsageError", "below was not saved on worker:0: NotADir"),
        "end": ("UsageError", "from whose end no format of Keras can be told"),
        "remote": ("UsageError", "'gs://bucket/model.keras', where nothing can be renamed"),
        "no path": ("UsageError", "path is missing"),
        "a number for a path": ("UsageError", "5 was not saved on worker:1: path is 5"),
        "a text for a deadline": ("UsageError", "deadline is '5'"),
        "a resolver": ("UsageError", "strategy is TFConfigClusterResolver"),
        "path for a manager": ("UsageError", "a CheckpointManager has a folder of its own"),
        "no name": ("UsageError", "has no name"),
        "options": ("UsageError", "options cannot be given for this checkpoint"),
        "manager's options": ("UsageError", "give nothing but check_interval, checkpoint_number"),
        "no target": ("UsageError", "a int cannot be saved"),
        "only one worker": ("UsageError", "on worker:0: a int cannot be saved"),
        "other paths": ("UsageError", "worker:1: saved "),
        "other calls": ("UsageError", "worker:0: restored "),
        "a part fails": ("CheckpointError", "text was not saved on worker:1: ValueError: no more"),
        "in a function": ("UsageError", "inside a tf.function"),
        "lacks": ("CheckpointError", "lacks what is to be restored"),
        "not weights": ("UsageError", "cannot be loaded into a Keras model"),
        "not restorable": ("UsageError", "nothing can be restored into a int"),
    }
    for name, (kind, text) in expected.items():
        assert first[name][0] == kind, name
        assert text in first[name][1], name
    assert first["in part"] == f"{tmp_path}/good/ckpt-1"
    assert first["nothing yet"] is None
    assert first["left"] == ["checkpoint", "ckpt-1.data-00000-of-00001", "ckpt-1.index"]


def test_a_worker_that_does_not_come_is_named_on_all(tmp_path: Path) -> None:
    for told, seconds, saved in run_workers(f"{HERE}:absent", folder=str(tmp_path)):
        for (kind, text), late in zip(told, (1, 0), strict=True):
            assert kind == "CheckpointError"
            assert f"{tmp_path}/ckpt was not saved: worker:{late} did not come within 0.5 s" in text
        assert seconds < 20
        assert saved == f"{tmp_path}/ckpt-1"


def test_a_chief_that_is_killed_in_a_save_leaves_the_old_one_whole(tmp_path: Path) -> None:
    with pytest.raises(WorkerLostError, match="SIGKILL"), cluster() as workers:
        workers.run(killed, str(tmp_path), timeout=90)
    assert (tmp_path / "whole" / "part").read_text() == "new"
    assert [name for name in left_in(str(tmp_path)) if "tfdist" in name]
    for result in run_workers(f"{HERE}:after_the_kill", folder=str(tmp_path)):
        assert result == ["new", "newer", "whole", "whole/part"]


def test_the_death_of_a_peer_ends_the_wait(tmp_path: Path) -> None:
    with pytest.raises(WorkerLostError), cluster() as workers:
        workers.run(dies_between, str(tmp_path), timeout=90)
    assert "worker:1 has crashed" in (tmp_path / "told").read_text()


@pytest.mark.parametrize("mirrored", [False, True])
def test_one_process_saves_in_the_same_way(tmp_path: Path, mirrored: bool) -> None:
    [[paths, value, nowhere, left]] = run_workers(
        f"{HERE}:alone", workers=0, folder=str(tmp_path), mirrored=mirrored
    )
    assert paths == [f"{tmp_path}/manager/ckpt-{number}" for number in (1, 2)]
    assert value == 1.0
    assert nowhere[0] == "CheckpointError"
    assert f"{tmp_path}/nothing was not saved: ZeroDivisionError" in nowhere[1]
    assert [Path(name).name for name in left] == [
        "manager", "checkpoint", "ckpt-2.data-00000-of-00001", "ckpt-2.index",
    ]  # fmt: skip
