"""Keras' callbacks on several workers: one file, one decision, and a training that goes on."""

from __future__ import annotations

import functools
import hashlib
import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.adapters import test_checkpoint
from tests.adapters.cluster import ENV, run_workers
from tests.adapters.test_checkpoint import left_in, refusal, scope, task
from tests.commands import script, tfdist
from tests.once import once

HERE = "tests.adapters.test_keras_callbacks"
EPOCHS, BATCHES = 3, 5


class CutError(Exception):
    """The end of a training that was meant to go on."""


# In the workers


@functools.cache
def start() -> Any:
    """The strategy of this process, which all functions that it runs share."""
    return test_checkpoint.start()


def all_of(folder: str) -> dict[str, Any]:
    """What each function tells, in a folder of its own; notices are watched for at the end."""
    functions: dict[str, Callable[[str], Any]] = {"resumed": functools.partial(resumed, names=FEW)}
    functions |= {made.__name__: made for made in (damaged, best, boards, twice)}
    return {name: function(f"{folder}/{name}") for name, function in functions.items()}


def network(strategy: Any, seed: int = 1, **compiled: Any) -> Any:
    import keras

    keras.utils.set_random_seed(seed)
    with scope(strategy):
        model = keras.Sequential(
            [
                keras.Input((3,)),
                keras.layers.Dense(4, activation="tanh"),
                keras.layers.Dropout(0.3),
                keras.layers.Dense(1),
            ]
        )
        model.compile(keras.optimizers.Adam(0.05), "mse", metrics=["mae"], **compiled)
        model.optimizer.build(model.trainable_variables)
    return model


def rows(count: int = 8 * BATCHES) -> tuple[Any, Any]:
    random = np.random.RandomState(0)
    return random.rand(count, 3).astype("float32"), random.rand(count, 1).astype("float32")


def batches(*, shuffled: bool = True, repeated: bool = False, counted: bool = True) -> Any:
    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensor_slices(rows())
    if shuffled:
        dataset = dataset.shuffle(40, seed=3, reshuffle_each_iteration=True)
    if repeated:
        dataset = dataset.repeat()
    dataset = dataset.batch(8, drop_remainder=True)
    if not counted:
        dataset = dataset.filter(lambda x, y: True)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return dataset.with_options(options)


def cut_at(epoch: int, batch: int, seen: list[tuple[int, int]]) -> Any:
    """A callback that ends the training after that batch, and notes which ones it sees."""
    import keras

    class Cut(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
        now = -1

        def on_epoch_begin(self, number: int, logs: Any = None) -> None:
            self.now = number

        def on_train_batch_end(self, number: int, logs: Any = None) -> None:
            seen.append((self.now, number))
            if (self.now, number) == (epoch, batch):
                raise CutError

    return Cut()


def digest(model: Any) -> str:
    variables = [*model.variables, *model.optimizer.variables]
    return hashlib.sha256(b"".join(each.numpy().tobytes() for each in variables)).hexdigest()


def history(fitted: Any) -> dict[str, list[str]]:
    return {name: [f"{value:.6g}" for value in values] for name, values in fitted.history.items()}


CASES: dict[str, dict[str, Any]] = {
    "every batch": {"save_freq": 1, "cut": (2, 2), "resumes": (2, 3)},
    "every three batches": {"save_freq": 3, "cut": (1, 2), "resumes": (1, 1)},
    "every epoch": {"cut": (2, 2), "resumes": (2, 0)},
    "after the last batch": {"save_freq": 1, "cut": (1, 4), "resumes": (2, 0)},
    "before the first": {"save_freq": 50, "cut": (0, 3), "resumes": (0, 0)},
    "one iterator": {"repeated": True, "steps": 3, "save_freq": 1, "cut": (2, 0),
                     "resumes": (2, 1)},
    "unknown length": {"counted": False, "save_freq": 1, "cut": (2, 1), "resumes": (2, 2)},
    "executions": {"save_freq": 2, "execution": 2, "repeated": True, "steps": 4, "cut": (1, 1),
                   "resumes": (1, 3)},
}  # fmt: skip


FEW = ("every three batches", "after the last batch", "one iterator", "executions")
"""Those that a run on several workers makes, where each takes seconds."""


def resumed(folder: str, names: tuple[str, ...]) -> dict[str, Any]:
    """Each case with a cut, and without one; the data are shuffled anew in each epoch."""
    from tfdist_kit.adapters.keras_callbacks import BackupAndRestore

    strategy = start()
    models = {number: network(strategy, steps_per_execution=number) for number in (1, 2)}
    result: dict[str, Any] = {}
    for name in names:
        case = CASES[name]
        cut = case["cut"]
        kept = {key: case[key] for key in ("repeated", "counted") if key in case}
        model = models[case.get("execution", 1)]
        begin = [value.numpy() for value in state(model)]
        fit = functools.partial(
            model.fit, epochs=EPOCHS, steps_per_epoch=case.get("steps"), verbose=0,
            validation_data=rows(8) if cut == (1, 4) else None,
        )  # fmt: skip
        backup = functools.partial(
            BackupAndRestore, f"{folder}/{name}", save_freq=case.get("save_freq", "epoch")
        )
        seen: list[tuple[int, int]] = []
        with pytest.raises(CutError):
            fit(batches(**kept), callbacks=[backup(), cut_at(cut[0], cut[1], seen)])
        scramble(model, begin, whole=case["resumes"] == (0, 0))
        seen = []
        went_on = history(fit(batches(**kept), callbacks=[backup(), cut_at(-1, -1, seen)]))
        ended = digest(model)
        scramble(model, begin, whole=True)
        expected = history(fit(batches(**kept)))
        missing = EPOCHS - len(went_on["loss"])
        result[name] = {
            "same": digest(model) == ended,
            "history": went_on,
            "expected": {key: values[missing:] for key, values in expected.items()},
            "seen": seen[0],
            "left": os.path.exists(f"{folder}/{name}"),
        }
    return result


def state(model: Any) -> list[Any]:
    return [*model.variables, *model.optimizer.variables]


def scramble(model: Any, begin: list[Any], *, whole: bool) -> None:
    """Set the model back to its beginning, or to what no training would leave."""
    for variable, value in zip(state(model), begin, strict=True):
        variable.assign(value if whole else value + 1)


def damaged(folder: str) -> list[Any]:
    """The newest of two backups cannot be read; then neither."""
    from tfdist_kit import CheckpointError
    from tfdist_kit.adapters.keras_callbacks import BackupAndRestore

    strategy = start()
    backup = functools.partial(BackupAndRestore, folder, 1, double_checkpoint=True)
    with pytest.raises(CutError):
        network(strategy).fit(batches(), verbose=0, callbacks=[backup(), cut_at(0, 3, [])])
    kept = left_in(folder)
    parts = sorted(Path(folder).glob("*.data*"))
    seen: list[tuple[int, int]] = []
    for part in reversed(parts):
        if task(strategy) == 0:
            part.write_bytes(b"")
        try:
            callbacks = [backup(delete_checkpoint=False), cut_at(0, 4, seen)]
            with pytest.raises(CutError):
                network(strategy).fit(batches(), verbose=0, callbacks=callbacks)
        except CheckpointError as error:
            return [kept, seen[0], str(error)]
        if task(strategy) == 0:
            for each in Path(folder).glob("*.data*"):
                each.write_bytes(b"")
    return [kept, seen[0], ""]


def best(folder: str) -> dict[str, Any]:
    """Files of each kind, and values that are not the same on the workers."""
    import keras

    from tfdist_kit.adapters.keras_callbacks import EarlyStopping, ModelCheckpoint

    strategy = start()
    rank = task(strategy)
    scores = {0: [9.0, 7.0, 8.0, 1.0, 1.0, 0.0], 1: [9.0, 7.5, 6.0, 10.0, 10.0, 0.0]}[rank % 2]

    class Score(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            logs["score"] = scores[epoch]
            if rank == 0:
                logs["chief_only"] = 3.0

    model = network(strategy)
    biases: list[list[float]] = []

    class Note(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            biases.append(model.layers[-1].bias.numpy().tolist())

    kinds: list[Any] = [
        ModelCheckpoint(f"{folder}/best.keras", "score", save_best_only=True, mode="min"),
        ModelCheckpoint(f"{folder}/{{epoch}}-{{score:.2f}}-{{chief_only:.0f}}.weights.h5",
                        save_weights_only=True),
        ModelCheckpoint(f"{folder}/batches.keras", save_freq=3),
        EarlyStopping("score", patience=1, mode="min"),
    ]  # fmt: skip
    fitted = model.fit(batches(), epochs=6, verbose=0, callbacks=[Score(), Note(), *kinds])
    loaded = keras.models.load_model(f"{folder}/best.keras")
    return {
        "epochs": len(fitted.history["loss"]),
        "best": biases.index(loaded.layers[-1].bias.numpy().tolist()),
        "left": left_in(folder),
        "refused": refusal(
            lambda: model.fit(
                batches(), verbose=0, callbacks=[ModelCheckpoint(f"{folder}/of-{rank}.keras")]
            )
        ),
        "usage": [
            refusal(lambda: backup_in(folder, save_freq=0)),
            refusal(lambda: backup_in(folder, save_freq=False)),
            refusal(lambda: backup_in(folder, termination=object())),
            refusal(lambda: model_without_build(strategy, folder)),
        ],
    }


def twice(folder: str) -> list[Any]:
    """Two calls of `fit` that watch for notices, of which the second goes on."""
    from tfdist_kit.adapters.keras_callbacks import BackupAndRestore

    model = network(start())
    handlers = signal.getsignal(signal.SIGTERM)
    trained = []
    for epochs, stays in ((2, True), (3, False)):
        backup = BackupAndRestore(folder, delete_checkpoint=not stays, save_before_preemption=True)
        fitted = model.fit(batches(), epochs=epochs, verbose=0, callbacks=[backup])
        trained.append(len(fitted.history["loss"]))
    return [trained, os.path.exists(folder), signal.getsignal(signal.SIGTERM) == handlers]


def backup_in(folder: str, **options: Any) -> Any:
    from tfdist_kit.adapters.keras_callbacks import BackupAndRestore

    return BackupAndRestore(f"{folder}/backup", **options)


def model_without_build(strategy: Any, folder: str) -> None:
    import keras

    with scope(strategy):
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    callback = backup_in(folder)
    callback.set_model(model)
    callback.on_train_begin()


def imitate_tensorboard() -> None:
    """Write summaries without TensorBoard's package, which only describes how to show them."""
    import tensorflow as tf

    def write(name: str, data: Any, step: Any = None, **_: Any) -> Any:
        return tf.summary.write(name, tf.convert_to_tensor(data), step=step)

    module = importlib.import_module("tensorflow.summary")  # which tf.summary is not
    vars(module).update(scalar=write, histogram=write)


def boards(folder: str) -> list[str]:
    from tfdist_kit.adapters.keras_callbacks import TensorBoard

    strategy = start()
    imitate_tensorboard()
    for name, per_worker in (("one", False), ("each", True)):
        board = TensorBoard(f"{folder}/{name}", histogram_freq=1, per_worker=per_worker)
        network(strategy).fit(batches(), epochs=2, verbose=0, callbacks=[board])
    temp = Path(os.environ["TMPDIR"])
    return [path.name for path in temp.glob("tfdist-logs-*")]


# In pytest


Told = list[dict[str, Any]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Told]:
    """What two workers tell of each function, and where they were at it."""

    def make(folder: Path) -> tuple[Path, Told]:
        return folder, run_workers(f"{HERE}:all_of", timeout=400, folder=str(folder))

    return once(tmp_path_factory, f"{HERE}:all_of", make)


def assert_resumed(told: dict[str, Any], names: tuple[str, ...]) -> None:
    for name in names:
        case, result = CASES[name], told[name]
        assert result["same"], name
        assert result["history"] == result["expected"], name
        assert tuple(result["seen"]) == case["resumes"], name
        assert not result["left"], name


def test_a_resumed_training_ends_as_if_it_had_not_been_cut(tmp_path: Path) -> None:
    names = tuple(CASES)
    [told] = run_workers(f"{HERE}:resumed", workers=0, folder=str(tmp_path), names=names)
    assert_resumed(told, names)


def test_so_does_one_on_two_workers(made: tuple[Path, Told]) -> None:
    for told in made[1]:
        assert_resumed(told["resumed"], FEW)


def test_the_backup_before_is_taken_when_the_newest_cannot_be_read(
    made: tuple[Path, Told],
) -> None:
    for kept, seen, told in [each["damaged"] for each in made[1]]:
        assert kept == [
            "checkpoint",
            *(f"ckpt-{n}.{end}" for n in (3, 4) for end in ("data-00000-of-00001", "index")),
        ]
        assert tuple(seen) == (0, 3)
        assert "was not restored on worker:0" in told


def test_all_workers_decide_alike_and_write_one_file(made: tuple[Path, Told]) -> None:
    first, second = [each["best"] for each in made[1]]
    assert first == second
    assert first["epochs"] == 5  # the means are 9, 7.25, 7, 5.5, 5.5; alone they stop before
    assert first["best"] == 3
    means = ["9.00", "7.25", "7.00", "5.50", "5.50"]
    numbered = [f"{number + 1}-{mean}-3.weights.h5" for number, mean in enumerate(means)]
    assert first["left"] == sorted(["batches.keras", "best.keras", *numbered])
    assert first["refused"][0] == "UsageError"
    assert "worker:1: saved" in first["refused"][1]
    assert "save_freq is 0" in first["usage"][0][1]
    assert "save_freq is False" in first["usage"][1][1]
    assert "no notice is waited for" in first["usage"][2][1]
    assert "the model is not built" in first["usage"][3][1]


PREEMPTED = """
import os, signal

import keras
import tfdist_kit
from tests.adapters.test_keras_callbacks import batches, digest, network, scramble, state
from tfdist_kit.adapters.keras_callbacks import BackupAndRestore

strategy = tfdist_kit.multi_worker_mirrored(on_single_worker="allow")
model = network(strategy)
begin = [value.numpy() for value in state(model)]
steps = []


class Notice(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        steps.append(batch)
        if os.environ["TFDIST_ATTEMPT"] == "0" and len(steps) == 8:
            if int(os.environ["TFDIST_RANK"]) == strategy.num_replicas_in_sync - 1:
                os.kill(os.getpid(), signal.SIGTERM)


folder = os.environ["TFDIST_RUN_DIR"] + "/backup"
backup = BackupAndRestore(folder, save_freq=False, save_before_preemption=True)
went_on = model.fit(batches(), epochs=3, verbose=0, callbacks=[backup, Notice()])
ended = digest(model)
scramble(model, begin, whole=True)
whole = model.fit(batches(), epochs=3, verbose=0)
same_loss = went_on.history["loss"] == whole.history["loss"][-2:]
resumed = 3 <= steps[0] < 5  # in the second epoch; a busy machine hears of the notice a step later
complete = steps[0] + len(steps) == 10
print("ended", resumed, complete, digest(model) == ended, same_loss, os.path.exists(folder))
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_a_notice_loses_no_batch_and_repeats_none(tmp_path: Path, workers: int) -> None:
    name = script(tmp_path, PREEMPTED)
    result = tfdist(
        "run", "-n", str(workers), "--timeout", "110", "--max-restarts", "1", name,
        folder=tmp_path, env={**ENV, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    assert result.code == 0, result.err
    ended = [line.partition("] ")[2] for line in result.out.splitlines() if "ended" in line]
    assert ended == ["ended True True True True False"] * workers, result.out


def test_a_training_that_is_watched_can_go_on_in_the_same_process(
    made: tuple[Path, Told],
) -> None:
    assert [told["twice"] for told in made[1]] == [[[2, 1], False, True]] * 2


def test_logs_for_tensorboard_do_not_mix(made: tuple[Path, Told]) -> None:
    assert [told["boards"] for told in made[1]] == [[], []]
    folder = made[0] / "boards"
    files = [path.relative_to(folder) for path in folder.rglob("*tfevents*")]
    folders = sorted(str(path.parent) for path in files)
    assert folders == ["each/worker-0/train", "each/worker-1/train", "one/train"]


def test_importing_the_module_does_not_import_keras() -> None:
    code = (
        "import sys, tfdist_kit.adapters.keras_callbacks as room\n"
        "print('keras' in sys.modules, dir(room) == sorted(room.__all__))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
