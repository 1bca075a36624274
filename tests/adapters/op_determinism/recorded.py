"""Trainings that are recorded, in the workers: some repeat bit by bit, and each fault does not.

Each function records runs below a folder, named by what is to be compared: ``NAME/0``, ``NAME/1``.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tfdist_kit.determinism import compare, read_run

TRIES = 30
"""How many runs a race is given to show itself."""
CHANGED_STEP = 17


def switch(on: bool) -> None:
    """Op determinism, in a process of one's own."""
    import tensorflow as tf
    from tensorflow.python.framework import config

    if on:
        tf.config.experimental.enable_op_determinism()
    else:
        config.disable_op_determinism()


def arrays() -> tuple[Any, Any]:
    random = np.random.RandomState(0)
    x = random.rand(64, 8).astype("float32")
    return x, (x.sum(axis=1) > 4).astype("int32")


def batches() -> Any:
    import tensorflow as tf

    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    data = tf.data.Dataset.from_tensor_slices(arrays()).shuffle(64).batch(16)
    return data.with_options(options)


def fit(keras: Any, **compiled: Any) -> list[bytes]:
    """A small model, seeded, with dropout and shuffling; its weights at the end."""
    keras.utils.set_random_seed(1)
    layers = keras.layers
    model = keras.Sequential(
        [layers.Dense(16, activation="relu"), layers.Dropout(0.2), layers.Dense(2)]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, **{"jit_compile": False, **compiled})
    model.fit(batches(), epochs=1, verbose=0)
    return [weight.tobytes() for weight in model.get_weights()]


WAYS: dict[str, dict[str, Any]] = {
    "keras": {},
    "keras_eagerly": {"run_eagerly": True},
    "keras_several_steps": {"steps_per_execution": 3},
    "keras_xla": {"jit_compile": True},
    "tf_keras": {},
}


def clean(folder: str, repeats: int) -> dict[str, bool]:
    """Every way to train; and whether recording leaves the bits as they are."""
    import keras
    import tf_keras

    from tfdist_kit.adapters.op_determinism import recording

    unchanged = {}
    for way, compiled in WAYS.items():
        switch(way != "keras_xla")  # with it Keras 3 does without XLA
        library = tf_keras if way.startswith("tf") else keras
        with recording(f"{folder}/{way}/0"):
            weights = fit(library, **compiled)
        if not compiled:
            unchanged[way] = fit(library) == weights
    with recording(f"{folder}/keras/1"):
        fit(keras)
    for number in range(repeats):
        with recording(f"{folder}/loop/{number}"):
            loop()
    return unchanged


def loop(change: Callable[[int, Any], None] = lambda step, weights: None, steps: int = 5) -> None:
    """A loop of one's own, with the one line in its step."""
    import tensorflow as tf

    from tfdist_kit.adapters.op_determinism import record

    x, y = arrays()
    weights = tf.Variable(tf.fill([8, 2], 0.1))

    @tf.function  # type: ignore[untyped-decorator]
    def step(x: Any, y: Any) -> None:
        with tf.GradientTape() as tape:
            errors = tf.nn.sparse_softmax_cross_entropy_with_logits(y, x @ weights)
            loss = tf.reduce_mean(errors)
        gradient = tape.gradient(loss, weights)
        weights.assign_sub(0.1 * gradient)
        record(inputs=(x, y), loss=loss, gradients=[gradient], weights=[weights])

    for number in range(steps):
        rows = slice(8 * number, 8 * number + 8)
        step(x[rows], y[rows])
        change(number, weights)


def alone(folder: str) -> None:
    """The faults of one process."""
    unseeded(folder)
    for fault in (without_order, shared_state):
        for number in range(2):
            train = functools.partial(fault, bool(number))
            record_run(f"{folder}/{fault.__name__}/{number}", train)
    for on, race in ((True, bincount), (False, crop), (False, scatter)):
        switch(on)
        until_they_part(f"{folder}/{race.__name__}", race)
    switch(True)


def record_run(folder: str, train: Callable[[], Any]) -> None:
    from tfdist_kit.adapters.op_determinism import recording

    with recording(folder):
        train()


def until_they_part(folder: str, train: Callable[[], None]) -> None:
    """Leave two runs that differ, if any of several does; a race needs some luck to be lost."""
    record_run(f"{folder}/0", train)
    for _ in range(TRIES):
        record_run(f"{folder}/1", train)
        if compare(read_run(Path(folder, "0")), read_run(Path(folder, "1"))):
            return


def unseeded(folder: str) -> None:
    """Keras 3 seeded by TensorFlow alone: it draws from Python."""
    import keras
    import tensorflow as tf

    for number in range(2):
        tf.random.set_seed(1)
        layers = [keras.layers.Input([8]), keras.layers.Dense(2)]
        model = keras.Sequential(layers)
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        train = functools.partial(model.fit, *arrays(), verbose=0)
        record_run(f"{folder}/unseeded/{number}", train)


def overtaken(second_first: bool) -> Any:
    """The parts of a parallel map over 0 and 1 in which one of them waits for the other."""
    import tensorflow as tf

    done = threading.Event()
    first = int(second_first)

    def wait(number: Any) -> Any:
        if number != first:
            done.wait(20)
        return number

    def finish(number: Any) -> Any:
        if number == first:
            done.set()
        return number

    def through(function: Any, value: Any) -> Any:
        result = tf.numpy_function(function, [value], tf.int64)
        result.set_shape([])
        return result

    return lambda value: through(wait, value), lambda value: through(finish, value)


def feed(dataset: Any) -> None:
    """Record what a dataset gives; the rest of the step is the same whatever it is."""
    import tensorflow as tf

    from tfdist_kit.adapters.op_determinism import record

    for batch in dataset:
        record(inputs=batch, loss=tf.constant(0.0))


def without_order(second_first: bool) -> None:
    """A parallel map that gives what is ready."""
    import tensorflow as tf

    switch(False)
    wait, finish = overtaken(second_first)
    numbers = tf.data.Dataset.range(2).map(wait, num_parallel_calls=4, deterministic=False)
    # One at a time, so that an element that is overtaken comes in another batch.
    feed(numbers.prefetch(1).map(finish).batch(1))


def shared_state(second_first: bool) -> None:
    """An augmentation whose draws come from one generator, in the order of arrival."""
    import tensorflow as tf

    switch(False)
    generator = tf.random.Generator.from_seed(1)
    wait, finish = overtaken(second_first)

    def augment(number: Any) -> Any:
        number = wait(number)
        with tf.control_dependencies([number]):
            noise = generator.uniform([])
        with tf.control_dependencies([noise]):
            return tf.cast(finish(number), tf.float32) + noise

    feed(tf.data.Dataset.range(2).map(augment, num_parallel_calls=4).batch(2))


def many() -> tuple[Any, Any]:
    import tensorflow as tf

    random = np.random.RandomState(0)
    values = tf.constant(random.rand(200_000).astype("float32"))
    return values, tf.constant(random.randint(0, 50, 200_000).astype("int32"))


def bincount() -> None:
    """Nondeterministic with the switch on, too."""
    import tensorflow as tf

    from tfdist_kit.adapters.op_determinism import record

    values, places = many()
    weights = tf.Variable(tf.ones([50]))

    @tf.function  # type: ignore[untyped-decorator]
    def step() -> None:
        with tf.GradientTape() as tape:
            counts = tf.math.bincount(places, weights=values, minlength=50)
            loss = weights * tf.stop_gradient(counts)
        gradient = tape.gradient(loss, weights) * 0.0
        record(loss=loss, gradients=[gradient], weights=[weights])

    for _ in range(100):
        step()


def crop() -> None:
    """The gradient of crop_and_resize adds up in any order without the switch."""
    import tensorflow as tf

    from tfdist_kit.adapters.op_determinism import record

    random = np.random.RandomState(0)
    image = tf.Variable(random.rand(1, 64, 64, 3).astype("float32"))
    boxes = (random.rand(300, 4) * 0.01 + [0, 0, 1, 1]).astype("float32")
    factor = tf.constant(random.rand(300, 24, 24, 3).astype("float32"))

    @tf.function  # type: ignore[untyped-decorator]
    def step() -> None:
        with tf.GradientTape() as tape:
            pixels, places = image.read_value(), tf.zeros([300], tf.int32)
            cropped = tf.image.crop_and_resize(pixels, boxes, places, [24, 24])
            loss = tf.reduce_sum(cropped * factor)
        record(loss=loss, gradients=[tape.gradient(loss, image)], weights=[image])

    for _ in range(10):
        step()


def scatter() -> None:
    """An optimizer whose update has the same index many times, without the switch."""
    import tensorflow as tf

    from tfdist_kit.adapters.op_determinism import record

    values, places = many()
    weights = tf.Variable(tf.zeros([50]))

    @tf.function  # type: ignore[untyped-decorator]
    def step() -> None:
        gradient = tf.IndexedSlices(values, places, [50])
        weights.scatter_sub(gradient)
        record(loss=tf.constant(0.0), gradients=[gradient], weights=[weights])

    for _ in range(20):
        step()


def set_up_otherwise(folder: str, names: tuple[str, ...]) -> dict[str, str]:
    """One of some processes, which do not train together; each has a thread more than the last.

    Returns:
        What the first step gave, not by the recorder's word.
    """
    import tensorflow as tf

    rank = int(os.environ.pop("TFDIST_RANK"))
    os.environ.pop("TF_CONFIG")
    tf.config.threading.set_intra_op_parallelism_threads(1 + rank)
    switch(True)
    found: list[dict[str, str]] = []
    record_run(f"{folder}/{names[rank]}", lambda: found.extend(convolve()))
    return found[0]


def convolve() -> Iterator[dict[str, str]]:
    """The gradient of a convolution's filter is summed over the pixels, in parts."""
    import tensorflow as tf

    from tfdist_kit.adapters.op_determinism import record

    random = np.random.RandomState(0)
    images = tf.constant(random.standard_normal([8, 28, 28, 3]).astype("float32"))
    weights = tf.Variable(random.standard_normal([3, 3, 3, 16]).astype("float32"))

    @tf.function  # type: ignore[untyped-decorator]
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.conv2d(images, weights, 1, "SAME") ** 2)
        gradient = tape.gradient(loss, weights)
        weights.assign_sub(0.01 * gradient)
        record(inputs=images, loss=loss, gradients=[gradient], weights=[weights])
        return {"forward": loss, "gradient": gradient}

    for _ in range(3):
        yield {name: value.numpy().tobytes().hex() for name, value in step().items()}


def together(folder: str) -> list[str]:
    """Two workers, clean and with a change; what `check_replicas` says. Then other seeds."""
    import keras

    import tfdist_kit
    from tfdist_kit.adapters.op_determinism import check_replicas

    strategy = tfdist_kit.multi_worker_mirrored()
    switch(True)
    told = []
    for name in ("clean", "changed"):
        keras.utils.set_random_seed(1)
        with strategy.scope():
            model = keras.Sequential([keras.layers.Input([8]), keras.layers.Dense(2)])
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            model.compile("sgd", loss)
        changes = [Change(strategy)] if name == "changed" and is_second() else []
        callbacks = make_callbacks(changes)
        train = functools.partial(model.fit, batches(), epochs=5, verbose=0, callbacks=callbacks)
        record_run(f"{folder}/{name}", train)
        try:
            check_replicas(strategy, model.trainable_variables)
            told.append("")
        except tfdist_kit.StrategyError as error:
            told.append(str(error))
    for number in range(2):
        keras.utils.set_random_seed(2 if number and is_second() else 1)
        record_run(f"{folder}/seed/{number}", lambda: feed(batches().repeat(2)))
    return told


def around_the_ring(folder: str) -> None:
    """The same sums, three times."""
    import tfdist_kit

    strategy = tfdist_kit.multi_worker_mirrored(keras=False)
    for number in range(3):
        record_run(f"{folder}/{number}", lambda: ring(strategy))


def is_second() -> bool:
    return os.environ["TFDIST_RANK"] == "1"


class Change:
    """Adds 1e-6 to one element of this worker's own copy, after one step."""

    def __init__(self, strategy: Any) -> None:
        self.strategy, self.steps = strategy, 0

    def __call__(self, model: Any) -> None:
        if self.steps == CHANGED_STEP:
            kernel = model.trainable_variables[0].value
            value = kernel.numpy()
            value[0, 0] += 1e-6
            for copy in self.strategy.experimental_local_results(kernel):
                copy.assign(value)
        self.steps += 1


def make_callbacks(changes: list[Change]) -> list[Any]:
    import keras

    class Callback(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            for change in changes:
                change(self.model)

    return [Callback()]


def ring(strategy: Any) -> None:
    """Sums of numbers whose order matters, again and again."""
    import tensorflow as tf

    from tfdist_kit.adapters.op_determinism import record

    rank = int(os.environ["TFDIST_RANK"])
    shapes = ((7,), (1000, 3), (33333,))
    random = np.random.RandomState(rank)
    own = [tf.constant(random.standard_normal(shape).astype("float32")) for shape in shapes]

    @tf.function  # type: ignore[untyped-decorator]
    def step() -> None:
        def in_replica() -> None:
            context = tf.distribute.get_replica_context()
            options = tf.distribute.experimental.CommunicationOptions(
                implementation=tf.distribute.experimental.CommunicationImplementation.RING
            )
            summed = context.all_reduce("SUM", [tf.identity(each) for each in own], options)
            record(gradients=own, reduced=summed)

        strategy.run(in_replica)

    for _ in range(3):
        step()
