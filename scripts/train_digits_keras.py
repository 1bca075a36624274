"""Train on handwritten digits with Keras 3 `fit`, on one worker or several.

tfdist run -n 2 scripts/train_digits_keras.py
python scripts/train_digits_keras.py
"""

import functools
import os
import pathlib
import tempfile
import time

import keras
import tensorflow as tf
from absl import app, flags, logging

import tfdist_kit
from tfdist_kit.adapters import datasets

_EPOCHS = flags.DEFINE_integer("epochs", 12, "Passes over the training data.", lower_bound=2)
_BATCH = flags.DEFINE_integer("global_batch", 64, "Examples per step, over all workers.")
_RATE = flags.DEFINE_float("learning_rate", 0.003, "Adam's learning rate.")
_SEED = flags.DEFINE_integer("seed", 1, "Seed of weights and of the order of examples.")
_MODEL_DIR = flags.DEFINE_string("model_dir", None, "Where weights go; default: the run folder.")


class EpochClock(keras.callbacks.Callback):
    """Notes when each epoch ended."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[float] = []

    def on_epoch_end(self, epoch: int, logs: object = None) -> None:
        self.ends.append(time.perf_counter())


class SaveWeights(keras.callbacks.Callback):
    """Saves each epoch's weights; whoever watches the folder sees only whole files."""

    def on_epoch_end(self, epoch: int, logs: object = None) -> None:
        model_dir().mkdir(parents=True, exist_ok=True)
        partial = model_dir() / "partial.weights.h5"
        self.model.save_weights(partial)
        partial.rename(weights_file(epoch + 1))


def build_model() -> keras.Model:
    model = keras.Sequential(
        [
            keras.layers.Input((8, 8, 1)),
            keras.layers.Rescaling(1 / 16),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(_RATE.value),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def load(strategy: tf.distribute.Strategy, split: str) -> tf.distribute.DistributedDataset:
    return datasets.load(
        "uci_digits",
        split=split,
        global_batch=_BATCH.value,
        strategy=strategy,
        shuffle=split == "train",
        seed=_SEED.value,
    )


@functools.cache
def model_dir() -> pathlib.Path:
    if _MODEL_DIR.value:
        return pathlib.Path(_MODEL_DIR.value)
    run_dir = os.environ.get("TFDIST_RUN_DIR") or tempfile.mkdtemp(prefix="digits-")
    return pathlib.Path(run_dir) / "model"


def weights_file(epoch: int) -> pathlib.Path:
    return model_dir() / f"epoch-{epoch:02d}.weights.h5"


def train(strategy: tf.distribute.Strategy, model: keras.Model) -> None:
    chief = strategy.extended.should_checkpoint
    clock = EpochClock()
    callbacks: list[keras.callbacks.Callback] = [clock]
    if chief:  # one worker writes; the weights are the same on all
        callbacks.append(SaveWeights())
    model.fit(
        load(strategy, "train"),
        epochs=_EPOCHS.value,
        callbacks=callbacks,
        shuffle=False,  # the dataset does it, in the same order on all workers
        verbose=2 if chief else 0,
    )
    loss, accuracy = model.evaluate(load(strategy, "test"), verbose=0)
    if chief:
        steady = clock.ends[-1] - clock.ends[0]  # without the first epoch, which compiles
        examples = datasets.prepare("uci_digits").info.splits["train"].num_examples
        print_table(strategy, loss, accuracy, examples * (len(clock.ends) - 1) / steady)


def print_table(
    strategy: tf.distribute.Strategy, loss: float, accuracy: float, speed: float
) -> None:
    rows = {
        "workers": strategy.num_replicas_in_sync,
        "test loss": f"{loss:.3f}",
        "test accuracy": f"{accuracy:.1%}",
        "examples/s": f"{speed:,.0f}",
        "weights": weights_file(_EPOCHS.value),
        "logs": os.environ.get("TFDIST_RUN_DIR", "(not started by tfdist run)"),
    }
    print("\n".join(f"{name:14} {value}" for name, value in rows.items()))


def evaluate(strategy: tf.distribute.Strategy, model: keras.Model) -> None:
    """Follow the training from outside: evaluate each epoch's weights as they appear."""
    test = load(strategy, "test")
    for epoch in range(1, _EPOCHS.value + 1):
        while not weights_file(epoch).exists():
            time.sleep(0.1)
        model.load_weights(weights_file(epoch))
        loss, accuracy = model.evaluate(test, verbose=0)
        print(f"epoch {epoch}: test loss {loss:.3f}, test accuracy {accuracy:.1%}")


def main(_: list[str]) -> None:
    logging.set_verbosity(logging.WARNING)
    tf.get_logger().setLevel("WARNING")
    strategy = tfdist_kit.multi_worker_mirrored()  # first: it has to precede all of TensorFlow
    keras.utils.set_random_seed(_SEED.value)
    with strategy.scope():
        model = build_model()
    if strategy.cluster_resolver.task_type == "evaluator":
        evaluate(strategy, model)
    else:
        train(strategy, model)


if __name__ == "__main__":
    app.run(main)
