"""Programs that train, run as the same program in processes of their own."""

from __future__ import annotations

import os
from typing import Any

from tfdist_kit.conformance.checks.op_determinism._ops import (
    REPEATS,
    SEED,
    digest,
    prepared,
    results,
)
from tfdist_kit.conformance.checks.op_determinism._sweep import Inputs, gradient
from tfdist_kit.conformance.stage import Stage


def program(stage: Stage, seeded: bool = True) -> None:
    """A small program of plain TensorFlow: random weights, an augmented pipeline, a custom loop.

    Args:
        stage: Where it plays.
        seeded: Whether it begins with the page's two lines, or with neither.
    """
    import tensorflow as tf

    prepared()
    if seeded:
        stage.subject.enable_op_determinism(1)
    table = tf.Variable(tf.random.normal([50, 8]))
    stage.say("begins", weights=digest(table))

    def augment(x: Any) -> Any:
        return x, tf.random.normal([1000, 8])

    batches = tf.data.Dataset.range(20000).shuffle(500).batch(1000).map(augment, 4).take(4)
    for rows, noise in batches.prefetch(2):
        with tf.GradientTape() as tape:
            read = tf.nn.dropout(tf.gather(table, rows % 50) + noise, 0.2)
            loss = tf.reduce_mean(tf.square(read))
        table.scatter_sub(tape.gradient(loss, table))
        stage.say("step", loss=digest(loss), weights=digest(table))


def fit(stage: Stage, version: int, compiled: bool = False) -> None:
    """A training by Keras.

    Args:
        stage: Where it plays.
        version: Of Keras.
        compiled: Whether XLA is asked for.
    """
    prepared()
    stage.subject.enable_op_determinism(1)
    keras: Any = __import__("keras" if version == 3 else "tf_keras")
    keras.utils.set_random_seed(1)
    inputs = Inputs()
    images, classes = inputs.floats(24, 6, 6, 2), inputs.below(4, 24)
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((6, 6, 2)),
            layers.Conv2D(4, 3, activation="relu"),
            layers.BatchNormalization(),
            layers.Dropout(0.3),
            layers.Flatten(),
            layers.Dense(4, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", jit_compile=compiled)
    stage.say("compiled", with_xla=bool(model.jit_compile) if version == 3 else compiled)
    if compiled:
        return
    model.fit(images.numpy(), classes.numpy(), batch_size=8, epochs=2, verbose=0)
    stage.say("trained", weights=digest(model.get_weights()))
    stage.say("predicted", outputs=digest(model.predict_on_batch(images.numpy())))


def inference(stage: Stage) -> None:
    """A model that one process has saved, and that each of them loads and runs."""
    import tensorflow as tf

    prepared()
    stage.subject.enable_op_determinism(1)
    inputs, path = Inputs(), str(stage.folder / "model")
    images = inputs.floats(8, 16, 16, 4)

    @tf.function(input_signature=[tf.TensorSpec([8, 16, 16, 4])])
    def call(images: Any) -> Any:
        sums = tf.reduce_sum(tf.nn.conv2d(images, made.kernel, 1, "SAME"), [1, 2])
        return tf.nn.softmax(sums)

    made = tf.Module()
    made.kernel, made.call = tf.Variable(inputs.floats(3, 3, 4, 8)), call
    if stage.rank == 0:
        tf.saved_model.save(made, path)
    stage.meet("saved")
    model = tf.saved_model.load(path)
    stage.say("outputs", results=results(lambda: model.call(images)))


def configured(stage: Stage, threads: tuple[int, ...] = (), variable: str = "") -> None:
    """The gradient of a convolution, in processes that are configured otherwise.

    Args:
        stage: Where it plays.
        threads: How many threads each has for an op.
        variable: An environment variable that holds this number.
    """
    own = threads[stage.rank]
    if variable:
        os.environ[variable] = str(own)
    prepared(0 if variable else own)
    stage.subject.enable_op_determinism(SEED)
    inputs = Inputs()
    images, kernel = inputs.floats(8, 32, 32, 16), inputs.floats(3, 3, 16, 16)

    def convolved(kernel: Any) -> Any:
        import tensorflow as tf

        return tf.nn.conv2d(images, kernel, 1, "SAME")

    stage.say("gradient", results=results(gradient(convolved, kernel), REPEATS))


def by_environment(stage: Stage) -> None:
    """The switch as an environment variable, in place of the call."""
    import tensorflow as tf
    from tensorflow.python.framework import config

    prepared()
    os.environ["TF_DETERMINISTIC_OPS"] = "1"
    stage.say("is on", answer=config.is_op_determinism_enabled())
    try:
        tf.random.normal([2])
    except RuntimeError:
        stage.say("refused")
