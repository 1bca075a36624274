"""Train so that it may be stopped at any moment, and ends with the same weights as if it were not.

tfdist run -n 2 --max-restarts 3 scripts/train_preemptible.py
tfdist run -n 2 --max-restarts 3 scripts/train_preemptible.py --data iterator

A notice (SIGTERM) to any worker has all of them save and leave; started again, they go on. Two ways
to give a step that follows a restart the data that it would have had without one:

- `--data steps`: the batch is computed from the number of the step, and nothing has to be saved;
- `--data iterator`: the workers' `tf.data` iterators are saved along with the model.
"""

import functools
import hashlib
import os
import pathlib
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import tfdist_kit

tfdist_kit.watch_preemption()  # first of all: a notice while TensorFlow loads ends the process well

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from absl import app, flags, logging  # noqa: E402

from tfdist_kit.adapters import datasets  # noqa: E402

_STEPS = flags.DEFINE_integer("steps", 200, "Steps of the training.", lower_bound=1)
_BATCH = flags.DEFINE_integer("global_batch", 24, "Examples per step, over all workers.")
_RATE = flags.DEFINE_float("learning_rate", 0.003, "Adam's learning rate.")
_SEED = flags.DEFINE_integer("seed", 1, "Seed of weights and of the order of examples.")
_DATA = flags.DEFINE_enum("data", "steps", ["steps", "iterator"], "How the data stays in step.")
_SAVE = flags.DEFINE_integer("save_every", 50, "Steps between saves without a notice; 0: none.")
_LOG = flags.DEFINE_integer("log_every", 50, "Steps between two lines.", lower_bound=1)
_MODEL_DIR = flags.DEFINE_string("model_dir", None, "Checkpoints; default: the run folder.")
_ROWS = flags.DEFINE_string("rows", None, "A folder for the hashes of all examples trained on.")

Batch = tuple[Any, Any]
Draw = Callable[[tf.distribute.experimental.ValueContext], Batch]


def build_model() -> keras.Model:
    return keras.Sequential(
        [
            keras.layers.Input((8, 8, 1)),
            keras.layers.Rescaling(1 / 16),
            keras.layers.Flatten(),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


def whole(split: str) -> Batch:
    """All examples of a split, in an order that never changes."""
    count = datasets.prepare("uci_digits").info.splits[split].num_examples
    data = datasets.load(
        "uci_digits", split=split, global_batch=count, worker=(0, 1), shuffle=False
    )
    images, labels = next(iter(data))
    return images.numpy(), labels.numpy()


class KeyedData:
    """Data as a function of the step: nothing about it has to be saved.

    Step s has the examples s * global_batch and on, counted through all epochs; each epoch has an
    order of its own, which its number gives.
    """

    checkpoint = None

    def __init__(self) -> None:
        self._images, self._labels = whole("train")

    def at(self, step: int) -> Draw:
        def draw(context: tf.distribute.experimental.ValueContext) -> Batch:
            size = _BATCH.value // context.num_replicas_in_sync
            first = step * _BATCH.value + context.replica_id_in_sync_group * size
            rows = [self._row(place) for place in range(first, first + size)]
            return self._images[rows], self._labels[rows]

        return draw

    def _row(self, place: int) -> int:
        epoch, position = divmod(place, len(self._labels))
        return int(order(epoch, len(self._labels))[position])


@functools.lru_cache(2)
def order(epoch: int, examples: int) -> np.ndarray:
    return np.random.default_rng([_SEED.value, epoch]).permutation(examples)


class IteratorData:
    """Data from iterators, one for each replica here; where they stand is in `checkpoint`.

    A batch is drawn within the step: one that was drawn before it would be lost if the step were
    not made.
    """

    def __init__(self, replicas: Sequence[int], count: int) -> None:
        self._iterators = {
            replica: iter(
                datasets.load(
                    "uci_digits",
                    split="train",
                    global_batch=_BATCH.value,
                    worker=(replica, count),
                    seed=_SEED.value,
                    drop_remainder=True,
                    repeat=True,
                )
            )
            for replica in replicas
        }
        named = {f"replica_{replica}": one for replica, one in self._iterators.items()}
        self.checkpoint = tf.train.Checkpoint(**named)

    def at(self, step: int) -> Draw:
        return lambda context: next(self._iterators[context.replica_id_in_sync_group])


def local_replicas(strategy: tf.distribute.Strategy) -> list[int]:
    """The numbers, among all, of the replicas that this worker has."""
    numbers = strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(context.replica_id_in_sync_group)
    )
    return [int(number) for number in strategy.experimental_local_results(numbers)]


class Rows:
    """Which examples this process trained on: a line for each step, with a hash of each example."""

    def __init__(self, folder: str | None, replica: int) -> None:
        self._file = None
        if folder:
            pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
            name = f"replica_{replica}-{time.time_ns()}.txt"
            self._file = (pathlib.Path(folder) / name).open("w", buffering=1)  # lines are whole

    def note(self, step: int, strategy: tf.distribute.Strategy, batch: Any) -> None:
        if self._file is None:
            return
        hashes = [
            hashlib.sha256(image.tobytes() + bytes([label])).hexdigest()[:16]
            for images, labels in strategy.experimental_local_results(batch)
            for image, label in zip(np.array(images), np.array(labels), strict=True)
        ]
        self._file.write(f"{step} {' '.join(hashes)}\n")


def make_train_step(
    strategy: tf.distribute.Strategy, model: keras.Model, optimizer: keras.optimizers.Optimizer
) -> Callable[[Any], tf.Tensor]:
    def on_replica(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            losses = keras.losses.sparse_categorical_crossentropy(
                labels, model(images, training=True), from_logits=True
            )
            loss = tf.nn.compute_average_loss(losses, global_batch_size=_BATCH.value)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @tf.function
    def train_step(batch: Any) -> tf.Tensor:
        return strategy.reduce("SUM", strategy.run(on_replica, args=batch), axis=None)

    return train_step


def digest(model: keras.Model, optimizer: keras.optimizers.Optimizer) -> str:
    """A hash of everything that was trained: equal only if every bit is."""
    values = [variable.numpy() for variable in model.variables + optimizer.variables]
    return hashlib.sha256(b"".join(value.tobytes() for value in values)).hexdigest()


def accuracy(model: keras.Model) -> float:
    images, labels = whole("test")
    guesses = tf.argmax(model(images), axis=1, output_type=labels.dtype)
    return float(tf.reduce_mean(tf.cast(guesses == labels, tf.float32)))


def model_dir() -> str:
    base = os.environ.get("TFDIST_RUN_DIR") or tempfile.gettempdir()
    return _MODEL_DIR.value or str(pathlib.Path(base) / "checkpoints")


def train(strategy: tf.distribute.Strategy) -> None:
    with strategy.scope():
        model = build_model()
        optimizer = keras.optimizers.Adam(_RATE.value)
        optimizer.build(model.trainable_variables)
    replicas = local_replicas(strategy)
    data = (
        KeyedData()
        if _DATA.value == "steps"
        else IteratorData(replicas, strategy.num_replicas_in_sync)
    )
    handler = tfdist_kit.preemption_checkpoint_handler(
        strategy,
        tf.train.Checkpoint(model=model, optimizer=optimizer),
        model_dir(),
        per_worker=data.checkpoint,
    )
    rows, train_step = Rows(_ROWS.value, replicas[0]), make_train_step(strategy, model, optimizer)

    def one_step(step: int) -> float:
        batch = strategy.experimental_distribute_values_from_function(data.at(step))
        loss = float(train_step(batch))
        rows.note(step, strategy, batch)
        return loss

    step = first = handler.total_run_calls
    if first:
        print(f"goes on after step {first}")
    while step < _STEPS.value:
        loss = handler.run(one_step, step)
        step = handler.total_run_calls
        if step % _LOG.value == 0:
            print(f"step {step}: loss {loss:.4f}")
        if _SAVE.value and step % _SAVE.value == 0 and step < _STEPS.value:
            handler.save()
    handler.finish_training()
    print(f"test accuracy  {accuracy(model):.1%}")
    print(f"weights        {digest(model, optimizer)}")


def main(_: list[str]) -> None:
    logging.set_verbosity(logging.WARNING)
    tf.get_logger().setLevel("WARNING")
    tf.config.experimental.enable_op_determinism()
    strategy = tfdist_kit.multi_worker_mirrored()
    keras.utils.set_random_seed(_SEED.value)
    train(strategy)


if __name__ == "__main__":
    app.run(main)
