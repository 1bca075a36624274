"""What random ops and generators do with the switch on."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tfdist_kit.conformance.checks.op_determinism._ops import digest, prepared
from tfdist_kit.conformance.stage import Stage

Draws = Mapping[str, Callable[[], Any]]


def tensors() -> Draws:
    """Functions that draw random numbers by the global seed."""
    import tensorflow as tf

    draw, image = tf.random, tf.zeros([4, 4, 3])
    classes: Any = ([[1]], 1, 1, True)
    return {
        "random.normal": lambda: draw.normal([2]),
        "random.uniform": lambda: draw.uniform([2]),
        "random.uniform of whole numbers": lambda: draw.uniform([2], 0, 9, tf.int32),
        "random.truncated_normal": lambda: draw.truncated_normal([2]),
        "random.shuffle": lambda: draw.shuffle([1, 2]),
        "random.categorical": lambda: draw.categorical([[1.0, 2.0]], 1),
        "random.gamma": lambda: draw.gamma([2], 1.0),
        "random.poisson": lambda: draw.poisson([2], 1.0),
        "random.uniform_candidate_sampler": lambda: draw.uniform_candidate_sampler(*classes, 5),
        "random.log_uniform_candidate_sampler": lambda: draw.log_uniform_candidate_sampler(
            *classes, 5
        ),
        "random.all_candidate_sampler": lambda: draw.all_candidate_sampler(*classes, seed=None),
        "random_normal_initializer": lambda: tf.random_normal_initializer()([2]),
        "nn.dropout": lambda: tf.nn.dropout(tf.ones([2]), 0.5),
        "image.random_flip_left_right": lambda: tf.image.random_flip_left_right(image),
        "image.random_brightness": lambda: tf.image.random_brightness(image, 0.1),
        "image.random_contrast": lambda: tf.image.random_contrast(image, 0.1, 0.2),
        "image.random_hue": lambda: tf.image.random_hue(image, 0.1),
        "image.random_saturation": lambda: tf.image.random_saturation(image, 0.1, 0.2),
        "image.random_crop": lambda: tf.image.random_crop(image, [2, 2, 3]),
    }


def generators() -> Draws:
    """Data sets and generators that would be seeded by chance."""
    import tensorflow as tf

    numbers = tf.data.Dataset.range(4)
    return {
        "Dataset.shuffle": lambda: numbers.shuffle(2),
        "Dataset.random": lambda: tf.data.Dataset.random(),
        "Dataset.sample_from_datasets": lambda: tf.data.Dataset.sample_from_datasets(
            [numbers, numbers]
        ),
        "Generator.from_non_deterministic_state": (
            tf.random.Generator.from_non_deterministic_state
        ),
        "get_global_generator": tf.random.get_global_generator,
    }


def exceptions() -> Draws:
    """What else draws random numbers."""
    import tensorflow as tf

    image, ratio = tf.zeros([1, 4, 4, 1]), [1.0, 1.4, 1.4, 1.0]
    return {
        "sample_distorted_bounding_box": lambda: tf.image.sample_distorted_bounding_box(
            [4, 4, 3], tf.zeros([1, 1, 4])
        ),
        "fractional_max_pool": lambda: tf.nn.fractional_max_pool(image, ratio),
        "fractional_avg_pool": lambda: tf.nn.fractional_avg_pool(image, ratio),
        "FractionalMaxPool": lambda: tf.raw_ops.FractionalMaxPool(value=image, pooling_ratio=ratio),
        "NonDeterministicInts": lambda: tf.raw_ops.NonDeterministicInts(shape=[2]),
        "RandomStandardNormal": lambda: tf.raw_ops.RandomStandardNormal(
            shape=[2], dtype=tf.float32
        ),
        "timestamp": tf.timestamp,
    }


def keras_3() -> Draws:
    """What Keras 3 draws."""
    import keras

    return {
        "keras.random.normal": lambda: keras.random.normal([2]),
        "an initializer": lambda: keras.initializers.GlorotUniform()([2, 2]),
        "Dropout": lambda: keras.layers.Dropout(0.5)(np.ones([1, 2], "f"), training=True),
    }


def python_and_numpy() -> Draws:
    """What the user has to seed."""
    return {
        "random": random.random,
        "numpy.random": lambda: np.random.rand(2),  # is what is checked
        "numpy.random.default_rng": lambda: np.random.default_rng().random(2),
    }


def unseeded(stage: Stage) -> None:
    """Everything that draws random numbers, with the switch on and no seed set."""
    prepared()
    stage.subject.enable_op_determinism()
    for word, draws in (
        ("tensors", tensors()),
        ("generators", generators()),
        ("exceptions", exceptions()),
        ("keras 3", keras_3()),
        ("python and numpy", python_and_numpy()),
    ):
        stage.say(word, raised=_raised(draws))


def _raised(draws: Draws) -> dict[str, str]:
    """What each of them raises; empty for nothing."""
    found = {}
    for name, draw in draws.items():
        try:
            draw()
        except Exception as error:
            found[name] = type(error).__name__
        else:
            found[name] = ""
    return found


def seeded(stage: Stage) -> None:
    """What is drawn after the seeds were set, twice; and what global seeds do not reach."""
    import keras
    import tensorflow as tf

    prepared()
    stage.subject.enable_op_determinism(1)
    before = _drawn(python_and_numpy())
    stage.say("demanding", raised=_raised(exceptions()))
    draws = {**python_and_numpy(), "tf.random": lambda: tf.random.normal([2]), **keras_3()}
    found = []
    for _ in range(2):
        tf.keras.utils.set_random_seed(3)
        found.append(_drawn(draws))
    stage.say("drawn", differ=[name for name in draws if found[0][name] != found[1][name]])
    stage.say("before", same=[name for name in before if before[name] == found[0][name]])
    stage.say("order", moved=_first_after_another() != _first())
    wrong: Draws = {
        str(seed): lambda seed=seed: keras.utils.set_random_seed(seed)  # type: ignore[misc]
        for seed in (None, -1, 2**33, 1.5, "a")
    }
    stage.say("refused", raised=_raised(wrong))


def _drawn(draws: Draws) -> dict[str, str]:
    return {name: digest(draw()) for name, draw in draws.items()}


def _first() -> str:
    import tensorflow as tf

    tf.random.set_seed(5)
    return digest(tf.random.normal([2]))


def _first_after_another() -> str:
    import tensorflow as tf

    tf.random.set_seed(5)
    tf.random.uniform([])
    return digest(tf.random.normal([2]))


def outside(stage: Stage) -> None:
    """What comes from outside of TensorFlow, in a program that has the page's two lines."""
    import tensorflow as tf

    prepared()
    stage.subject.enable_op_determinism(1)
    noise = np.frombuffer(os.urandom(4), "uint32")
    stage.say("from the system", result=digest(tf.constant(noise) * 2))
    rng = np.random.default_rng()
    stage.say("from a new generator", result=digest(tf.constant(rng.random(4))))
    np.random.seed(None)  # as in a program that does not seed it
    stage.say("unseeded", result=digest(tf.constant(np.random.rand(4))))


def keras_by_the_tensorflow_seed(stage: Stage) -> None:
    """A Keras 3 layer in a program that has set TensorFlow's seed, and none else."""
    import keras
    import tensorflow as tf

    prepared()
    tf.random.set_seed(1)
    stage.subject.enable_op_determinism()
    layer = keras.layers.Dense(3)
    layer.build((None, 3))
    stage.say("weights", result=digest(layer.get_weights()))
