"""Train on handwritten digits with a loop of one's own: `strategy.run`, `reduce`, checkpoints.

tfdist run -n 2 scripts/train_digits_custom_loop.py
tfdist run --config configs/compat_v1.toml scripts/train_digits_custom_loop.py
"""

import os
import pathlib
import tempfile
import time
from collections.abc import Callable

import keras
import tensorflow as tf
from absl import app, flags, logging

import tfdist_kit
from tfdist_kit.adapters import datasets

_API = flags.DEFINE_enum("api", "v2", ["v2", "compat.v1"], "Which class of the strategy.")
_EPOCHS = flags.DEFINE_integer("epochs", 12, "Passes over the training data.", lower_bound=2)
_BATCH = flags.DEFINE_integer("global_batch", 64, "Examples per step, over all workers.")
_RATE = flags.DEFINE_float("learning_rate", 0.003, "Adam's learning rate.")
_SEED = flags.DEFINE_integer("seed", 1, "Seed of weights and of the order of examples.")
_MODEL_DIR = flags.DEFINE_string("model_dir", None, "Checkpoints; default: the run folder.")


def build_model() -> keras.Model:
    return keras.Sequential(
        [
            keras.layers.Input((8, 8, 1)),
            keras.layers.Rescaling(1 / 16),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


def load(strategy: tf.distribute.Strategy, split: str) -> tf.distribute.DistributedDataset:
    return datasets.load(
        "uci_digits",
        split=split,
        global_batch=_BATCH.value,
        strategy=strategy,
        shuffle=split == "train",
        seed=_SEED.value,
    )


def model_dir(strategy: tf.distribute.Strategy) -> str:
    """Where this worker saves: all must save, and only the chief's checkpoints are kept."""
    base = _MODEL_DIR.value or os.environ.get("TFDIST_RUN_DIR") or tempfile.gettempdir()
    if strategy.extended.should_checkpoint or is_evaluator(strategy):
        return str(pathlib.Path(base) / "checkpoints")
    return tempfile.mkdtemp(prefix="not-chief-", dir=base)


def is_evaluator(strategy: tf.distribute.Strategy) -> bool:
    return bool(strategy.cluster_resolver.task_type == "evaluator")


def make_train_step(
    strategy: tf.distribute.Strategy, model: keras.Model, optimizer: keras.optimizers.Optimizer
) -> Callable[[tf.Tensor], tf.Tensor]:
    def on_replica(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            losses = keras.losses.sparse_categorical_crossentropy(
                labels, model(images, training=True), from_logits=True
            )
            # Sum over this replica, divided by the global batch: the replicas' gradients add up.
            loss = tf.nn.compute_average_loss(losses, global_batch_size=_BATCH.value)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @tf.function
    def train_step(batch: tf.Tensor) -> tf.Tensor:
        return strategy.reduce("SUM", strategy.run(on_replica, args=batch), axis=None)

    return train_step


def make_count_correct(
    strategy: tf.distribute.Strategy, model: keras.Model
) -> Callable[[tf.Tensor], tf.Tensor]:
    def on_replica(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        guesses = tf.argmax(model(images), axis=1, output_type=labels.dtype)
        hits = tf.cast(guesses == labels, tf.float32)
        return tf.stack([tf.reduce_sum(hits), tf.cast(tf.size(hits), tf.float32)])

    @tf.function
    def count_correct(batch: tf.Tensor) -> tf.Tensor:
        return strategy.reduce("SUM", strategy.run(on_replica, args=batch), axis=None)

    return count_correct


def accuracy(
    test: tf.distribute.DistributedDataset, count_correct: Callable[[tf.Tensor], tf.Tensor]
) -> float:
    correct, total = sum(count_correct(batch).numpy() for batch in test)
    return float(correct / total)


def train(strategy: tf.distribute.Strategy, model: keras.Model) -> None:
    with strategy.scope():
        optimizer = keras.optimizers.Adam(_RATE.value)
        optimizer.build(model.trainable_variables)
    chief = strategy.extended.should_checkpoint
    train_step = make_train_step(strategy, model, optimizer)
    train_data, test_data = load(strategy, "train"), load(strategy, "test")
    folder = model_dir(strategy)
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(model=model), folder, max_to_keep=3)
    ends = []
    for epoch in range(1, _EPOCHS.value + 1):
        losses = [train_step(batch) for batch in train_data]
        manager.save(epoch)
        ends.append(time.perf_counter())
        if chief:
            print(f"epoch {epoch}: loss {tf.reduce_mean(losses):.4f}")
    reached = accuracy(test_data, make_count_correct(strategy, model))
    if not chief:
        tf.io.gfile.rmtree(folder)
        return
    examples = datasets.prepare("uci_digits").info.splits["train"].num_examples
    steady = ends[-1] - ends[0]  # without the first epoch, which compiles
    print(f"workers        {strategy.num_replicas_in_sync}")
    print(f"test accuracy  {reached:.1%}")
    print(f"examples/s     {examples * (len(ends) - 1) / steady:,.0f}")
    print(f"checkpoints    {folder}")


def evaluate(strategy: tf.distribute.Strategy, model: keras.Model) -> None:
    """Follow the training from outside: evaluate each checkpoint as it appears."""
    count_correct = make_count_correct(strategy, model)
    test = load(strategy, "test")
    checkpoint = tf.train.Checkpoint(model=model)
    for path in tf.train.checkpoints_iterator(model_dir(strategy), min_interval_secs=0):
        checkpoint.restore(path).expect_partial()
        epoch = int(path.rpartition("-")[2])
        print(f"epoch {epoch}: test accuracy {accuracy(test, count_correct):.1%}")
        if epoch == _EPOCHS.value:
            return


def main(_: list[str]) -> None:
    logging.set_verbosity(logging.WARNING)
    tf.get_logger().setLevel("WARNING")
    strategy = tfdist_kit.multi_worker_mirrored(api=_API.value)
    keras.utils.set_random_seed(_SEED.value)
    with strategy.scope():
        model = build_model()
    if is_evaluator(strategy):
        evaluate(strategy, model)
    else:
        train(strategy, model)


if __name__ == "__main__":
    app.run(main)
