"""Datasets that are slow under determinism, the same rewritten, and harmless ones.

Each has a stage whose Python function counts how often it runs at the same time. That it runs one
at a time, or not, is what the lint must say beforehand.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

ELEMENTS = 8
PARALLEL = {"num_parallel_calls": 4}
Make = Callable[[], Any]


class Work:
    """Work for each element, and how many did it at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = self.most = 0

    def __call__(self, x: Any) -> Any:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        time.sleep(0.01)
        with self._lock:
            self._now -= 1
        return x


work = Work()


def heavy(x: Any) -> Any:
    done = tf.numpy_function(work, [x], tf.float32, stateful=False)
    done.set_shape([])
    return done


def most_at_once(dataset: Any) -> int:
    work.most = 0
    for _ in on_four(dataset):
        pass
    return work.most


def on_four(dataset: Any) -> Any:
    """The dataset with as many threads on any machine."""
    options = tf.data.Options()
    options.threading.private_threadpool_size = 4
    return dataset.with_options(options)


def numbers() -> Any:
    return tf.data.Dataset.range(ELEMENTS).map(lambda i: tf.cast(i, tf.float32))


def seeded() -> Any:
    """As the rewrites say: each element with a seed of its own."""
    return tf.data.Dataset.zip((numbers(), tf.data.Dataset.random(seed=1).batch(2)))


@dataclass(frozen=True)
class Case:
    """A trigger, and its rewrites."""

    code: str
    slow: Make
    rewrites: tuple[Make, ...]


def branch(x: Any) -> Any:
    return heavy(x) + tf.cond(x > 1.0, lambda: tf.random.uniform([]), lambda: 0.0)


def branch_with_a_seed(x: Any, seed: Any) -> Any:
    drawn = tf.cond(x > 1.0, lambda: tf.random.stateless_uniform([], seed), lambda: 0.0)
    return heavy(x) + drawn


def branch_with_a_number(x: Any) -> Any:
    drawn = tf.random.uniform([])
    return heavy(x) + tf.cond(x > 1.0, lambda: drawn, lambda: 0.0)


def many(x: Any) -> Any:
    shape = tf.cast(tf.reshape(heavy(x), [1]), tf.int32)
    return tf.reduce_sum(tf.random.uniform(shape))


def many_with_a_seed(x: Any, seed: Any) -> Any:
    shape = tf.cast(tf.reshape(heavy(x), [1]), tf.int32)
    return tf.reduce_sum(tf.random.stateless_uniform(shape, seed))


def inner(x: Any) -> Any:
    return tf.data.Dataset.from_tensor_slices([x]).map(heavy)


def from_python() -> Any:
    return (float(number) for number in range(ELEMENTS))


def interleaved(slices: Callable[[Any], Any]) -> Any:
    return numbers().interleave(
        lambda x: slices(x).map(heavy), cycle_length=4, num_parallel_calls=4
    )


def python_map(**options: Any) -> Any:
    return numbers().map(
        lambda x: (
            heavy(x) + tf.ensure_shape(tf.numpy_function(np.sin, [x], tf.float32, **options), [])
        ),
        **PARALLEL,
    )


def cases() -> dict[str, Case]:
    import keras

    generator = tf.random.Generator.from_seed(1)
    variable = tf.Variable(2.0)
    names = tf.constant(["0", "1"])
    rows = tf.lookup.KeyValueTensorInitializer(names, tf.range(2))
    table = tf.lookup.StaticHashTable(rows, -1)
    lookup = keras.layers.StringLookup(vocabulary=["0", "1"])
    flip = keras.layers.RandomFlip("horizontal", seed=1)
    picture = tf.reshape(tf.range(12.0), [2, 2, 3])

    def name_of(x: Any) -> Any:
        return tf.strings.as_string(tf.cast(x, tf.int32))

    def to_float(x: Any) -> Any:
        return tf.cast(x, tf.float32)

    def flipped_stateless(x: Any, seed: Any) -> Any:
        return heavy(x), tf.image.stateless_random_flip_left_right(picture, seed)

    constant = float(variable)
    plain = lambda: numbers().map(heavy, **PARALLEL)  # noqa: E731  # the rewrite of several
    return {
        "random in tf.cond": Case(
            "DET001",
            lambda: numbers().map(branch, **PARALLEL),
            (
                lambda: seeded().map(branch_with_a_seed, **PARALLEL),
                lambda: numbers().map(branch_with_a_number, **PARALLEL),
            ),
        ),
        "random of a computed shape": Case(
            "DET002",
            lambda: numbers().map(many, **PARALLEL),
            (lambda: seeded().map(many_with_a_seed, **PARALLEL),),
        ),
        "random in interleave": Case(
            "DET003",
            lambda: numbers().interleave(
                lambda x: inner(x + tf.random.uniform([])), cycle_length=4, **PARALLEL
            ),
            (
                lambda: seeded().interleave(
                    lambda x, seed: inner(x + tf.random.stateless_uniform([], seed)),
                    cycle_length=4,
                    **PARALLEL,
                ),
                lambda: (
                    numbers()
                    .interleave(inner, cycle_length=4, **PARALLEL)
                    .map(lambda x: x + tf.random.uniform([]), **PARALLEL)
                ),
            ),
        ),
        "a Generator": Case(
            "DET010",
            lambda: numbers().map(lambda x: heavy(x) + generator.uniform([]), **PARALLEL),
            (
                lambda: seeded().map(
                    lambda x, seed: heavy(x) + tf.random.stateless_uniform([], seed), **PARALLEL
                ),
            ),
        ),
        "a Generator in a map of its own": Case(
            "DET010",
            lambda: numbers().map(lambda x: x + generator.uniform([])).map(heavy, **PARALLEL),
            (),
        ),
        "from_generator": Case(
            "DET011",
            lambda: tf.data.Dataset.from_generator(
                from_python, output_signature=tf.TensorSpec([], tf.float32)
            ).map(heavy, **PARALLEL),
            (
                lambda: tf.data.Dataset.from_tensor_slices(list(from_python())).map(
                    heavy, **PARALLEL
                ),
                lambda: tf.data.Dataset.range(ELEMENTS).map(
                    lambda i: heavy(tf.cast(i, tf.float32)), **PARALLEL
                ),
            ),
        ),
        "a variable": Case(
            "DET012",
            lambda: numbers().map(lambda x: heavy(x) * variable, **PARALLEL),
            (lambda: numbers().map(lambda x: heavy(x) * constant, **PARALLEL),),
        ),
        "RandomFlip": Case(
            "DET012",
            lambda: numbers().map(lambda x: (heavy(x), flip(picture, training=True)), **PARALLEL),
            (lambda: seeded().map(flipped_stateless, **PARALLEL), plain),
        ),
        "a table": Case(
            "DET013",
            lambda: numbers().map(lambda x: (heavy(x), table.lookup(name_of(x))), **PARALLEL),
            (
                lambda: numbers().map(
                    lambda x: (heavy(x), tf.argmax(tf.equal(names, name_of(x)))), **PARALLEL
                ),
            ),
        ),
        "StringLookup": Case(
            "DET013",
            lambda: numbers().map(lambda x: (heavy(x), lookup(name_of(x))), **PARALLEL),
            (plain,),
        ),
        "StringLookup in a map of its own": Case(
            "DET013",
            lambda: numbers().map(name_of).map(lookup).map(to_float).map(heavy, **PARALLEL),
            (),
        ),
        "numpy_function": Case("DET014", python_map, (lambda: python_map(stateful=False),)),
        "from_tensors in interleave": Case(
            "DET015",
            lambda: interleaved(tf.data.Dataset.from_tensors),
            (lambda: interleaved(lambda x: tf.data.Dataset.from_tensor_slices([x])),),
        ),
    }


def harmless(files: str) -> dict[str, Make]:
    import keras

    rescale, normal = keras.layers.Rescaling(2.0), keras.layers.Normalization(mean=0, variance=1)
    picture = tf.zeros([4, 4, 3])

    def lengths(dataset: Any) -> Any:
        return dataset.map(lambda x: heavy(tf.cast(tf.strings.length(x), tf.float32)), **PARALLEL)

    def printed(x: Any) -> Any:
        done = heavy(x)
        with tf.control_dependencies([tf.print(done, output_stream=f"file://{files}.log")]):
            return tf.identity(done)

    def flipped(x: Any) -> Any:
        return heavy(x), tf.image.random_flip_left_right(picture)

    return {
        "plain": lambda: numbers().map(heavy, **PARALLEL),
        "random": lambda: numbers().map(lambda x: heavy(x) + tf.random.uniform([]), **PARALLEL),
        "random image": lambda: numbers().map(flipped, **PARALLEL),
        "print": lambda: numbers().map(printed, **PARALLEL),
        "Rescaling": lambda: numbers().map(lambda x: rescale(heavy(x)), **PARALLEL),
        "Normalization": lambda: numbers().map(
            lambda x: normal(tf.reshape(heavy(x), [1, 1])), **PARALLEL
        ),
        "shuffle": lambda: numbers().shuffle(4).map(heavy, **PARALLEL).batch(2).prefetch(1),
        "TFRecord": lambda: lengths(tf.data.TFRecordDataset([f"{files}.tfrecord"])),
        "TextLine": lambda: lengths(tf.data.TextLineDataset([f"{files}.txt"])),
        "reader in interleave": lambda: lengths(
            tf.data.Dataset.from_tensor_slices([f"{files}.txt"]).interleave(
                tf.data.TextLineDataset, cycle_length=2, num_parallel_calls=2
            )
        ),
    }
