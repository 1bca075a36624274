"""What cannot work is refused before anything runs, on every worker alike."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.cluster import run_cluster, run_workers
from tests.adapters.preemption_checkpoint.training import Training, told_by

HERE = __name__


def refusals(folder: str) -> dict[str, str]:
    """What making a handler in each wrong way raises."""
    import tensorflow as tf

    import tfdist_kit
    from tfdist_kit.adapters.preemption_checkpoint import Termination, watchers

    training = Training()
    good = Path(folder, "good")
    below_a_file = Path(folder, "a|file", "checkpoints")
    own = Path(folder, f"of_rank_{training.rank}")
    full = Path(folder, "full")
    if training.rank == 0:
        below_a_file.parent.write_text("a file")
        manager = tf.train.CheckpointManager(training.checkpoint, full, max_to_keep=3)
        for _ in range(3):
            manager.save()

    def make(
        target: Any = training.checkpoint,
        folder: Any = good,
        termination: Any = None,
        strategy: Any = training.strategy,
        per_worker: Any = None,
    ) -> Any:
        return tfdist_kit.preemption_checkpoint_handler(
            strategy, target, folder, termination, per_worker=per_worker
        )

    def in_a_graph() -> None:
        with tf.Graph().as_default():
            make()

    def in_a_thread() -> Any:
        raised: list[BaseException] = []

        def act() -> None:
            try:
                make()
            except Exception as error:
                raised.append(error)

        thread = threading.Thread(target=act)
        thread.start()
        thread.join()
        raise raised[0]

    ways: dict[str, Callable[[], object]] = {
        "no folder": lambda: make(folder=None),
        "empty folder": lambda: make(folder=""),
        "no checkpoint": lambda: make(target={"w": 1}),
        "no path": lambda: make(folder=5),
        "resolver": lambda: make(strategy=training.strategy.cluster_resolver),
        "per_worker": lambda: make(per_worker={"iterator": 1}),
        "graph": in_a_graph,
        "below a file": lambda: make(folder=below_a_file),
        "not shared": lambda: make(folder=own),
        "others kept there": lambda: make(folder=full),
        "no termination": lambda: make(termination=42),
        "a thread": in_a_thread,
        "exit_fn": lambda: Termination(exit_fn=lambda: None),
        "exit_code": lambda: Termination(exit_code=0),
        "exit_code too high": lambda: Termination(exit_code=256),
        "signal": lambda: Termination(signals=(9,)),
        "no signal": lambda: Termination(signals=()),
        "a bare signal": lambda: Termination(signals=15),  # type: ignore[arg-type]
        "early signal": lambda: tfdist_kit.watch_preemption(15),  # type: ignore[arg-type]
        "early code": lambda: tfdist_kit.watch_preemption(exit_code=0),
        "grace": lambda: Termination(grace_period=-1),
        "grace of text": lambda: watchers.file("x", grace_period="5"),
        "save_fn": lambda: watchers.slurm(save_fn=1),
        "after": lambda: Termination(after_training="leave"),  # type: ignore[arg-type]
        "watcher": lambda: Termination(termination_watcher_fn=True),  # type: ignore[arg-type]
    }
    found = {name: told_by(lambda _: ways[name]()).error for name in ways}  # noqa: B023
    handler = make()
    found["a second"] = told_by(lambda _: make()).error
    handler.close()
    make().close()
    found["left"] = str(sorted(entry.name for entry in good.iterdir()))
    return found


EXPECTED = {
    "no folder": "a Checkpoint was given without checkpoint_dir",
    "empty folder": "a Checkpoint was given without checkpoint_dir",
    "no checkpoint": "checkpoint_or_manager is dict",
    "no path": "checkpoint_dir is 5",
    "resolver": "strategy is TFConfigClusterResolver",
    "per_worker": "per_worker is dict",
    "graph": "in graph mode",
    "below a file": "a|file/checkpoints cannot be written",
    "not shared": "is not there for worker:1",
    "others kept there": "holds 3 checkpoints, and TensorFlow's handler would delete all but one",
    "no termination": "termination is 42",
    "a thread": "made in another thread than the main one",
    "exit_fn": "exit_fn does nothing, so that it would not exit",
    "exit_code": "exit_code is 0",
    "exit_code too high": "exit_code is 256",
    "signal": "signals has 9, which no process can catch",
    "no signal": "signals is empty",
    "a bare signal": "signals is 15",
    "early signal": "signals is 15",
    "early code": "exit_code is 0",
    "grace": "grace_period is -1",
    "grace of text": "grace_period is '5'",
    "save_fn": "save_fn is 1",
    "after": "after_training is 'leave'",
    "watcher": "termination_watcher_fn is True",
    "a second": "this process has a handler already",
}


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    folder = str(tmp_path_factory.mktemp("refusals"))
    return run_workers(f"{HERE}:refusals", folder=folder, timeout=60)


@pytest.mark.parametrize("way", EXPECTED)
def test_it_is_refused_on_every_worker_alike(way: str, refused: list[dict[str, str]]) -> None:
    for told in refused:
        assert told[way].startswith("UsageError: TFD001: ")
        assert EXPECTED[way] in told[way]
        assert "\n  hint: " in told[way]


def test_nothing_is_left_in_the_folder_by_looking_at_it(refused: list[dict[str, str]]) -> None:
    assert refused[0]["left"] == "[]"


def as_evaluator(folder: str) -> str:
    import json
    import os

    import tensorflow as tf

    import tfdist_kit

    if json.loads(os.environ["TF_CONFIG"])["task"]["type"] != "evaluator":
        return ""
    strategy = tf.distribute.get_strategy()
    strategy.extended._cluster_resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    checkpoint = tf.train.Checkpoint(w=tf.Variable(1.0))
    make = tfdist_kit.preemption_checkpoint_handler
    return told_by(lambda _: make(strategy, checkpoint, folder)).error


def test_an_evaluator_is_refused(tmp_path: Path) -> None:
    told = run_cluster(f"{HERE}:as_evaluator", ("worker", "evaluator"), folder=str(tmp_path))
    assert "this task is an evaluator" in told[1]


def other_names(folder: str) -> list[str]:
    """Save under one name, and restore under others."""
    import tensorflow as tf

    import tfdist_kit

    strategy = tf.distribute.get_strategy()

    def make(**kept: Any) -> Any:
        checkpoint = tf.train.Checkpoint(**kept)
        return tfdist_kit.preemption_checkpoint_handler(strategy, checkpoint, folder)

    first = make(w=tf.Variable(1.0))
    first.save()
    first.close()
    found = told_by(lambda _: make(weights=tf.Variable(0.0))).error
    restored = tf.Variable(0.0)
    make(w=restored, more=tf.Variable(0.0)).close()
    return [found, str(float(restored.numpy()))]


def test_a_checkpoint_with_nothing_in_common_is_refused(tmp_path: Path) -> None:
    [[refused, restored]] = run_workers(f"{HERE}:other_names", workers=0, folder=str(tmp_path))
    assert "has w, and nothing of weights" in refused
    assert restored == "1.0"
