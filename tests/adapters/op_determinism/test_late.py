"""What came before the switch: refused, or told."""

from __future__ import annotations

from typing import Any

import pytest

from tests.adapters.cluster import run_workers
from tests.adapters.op_determinism.hearing import hearing

HERE = "tests.adapters.op_determinism.test_late"


# In the worker


def check_late() -> dict[str, Any]:
    import tensorflow as tf

    from tfdist_kit import UsageError, enable_op_determinism
    from tfdist_kit.adapters.op_determinism import is_enabled

    @tf.function  # type: ignore[untyped-decorator]
    def noise() -> Any:
        return tf.random.uniform([])

    @tf.function  # type: ignore[untyped-decorator]
    def hidden(x: Any) -> Any:
        return tf.cond(x > 0.0, lambda: tf.random.normal([]), lambda: 0.0)

    @tf.function  # type: ignore[untyped-decorator]
    def loss(x: Any) -> Any:
        return tf.nn.softmax_cross_entropy_with_logits(x, x)

    @tf.function  # type: ignore[untyped-decorator]
    def seeded() -> Any:
        return tf.random.uniform([], seed=1)

    @tf.function  # type: ignore[untyped-decorator]
    def double(x: Any) -> Any:
        return 2.0 * x

    def outcome() -> str:
        try:
            enable_op_determinism(1)
        except UsageError as error:
            return str(error)
        finally:
            found["on"].append(is_enabled())
            tf.config.experimental.enable_op_determinism()
            from tensorflow.python.framework import config

            config.disable_op_determinism()
            tf.random.set_seed(None)
        return ""

    found: dict[str, Any] = {"on": []}
    double(tf.constant(1.0)), seeded()
    list(tf.data.Dataset.from_tensor_slices([1.0]).map(double, num_parallel_calls=2).batch(2))
    tf.function(lambda: tf.random.uniform([]))()  # nobody can call it any more
    with pytest.raises(TypeError):
        tf.data.Dataset.range(3).shuffle(2, seed="x")
    found["harmless"] = outcome()
    noise()
    found["noise"] = outcome()
    hidden(tf.constant(1.0)), loss(tf.ones([1, 2]))
    found["all"] = outcome()
    with hearing() as texts:
        enable_op_determinism(1, on_late="warn")
    found["warned"] = texts
    with pytest.raises(tf.errors.InvalidArgumentError) as error:  # TensorFlow's own, if it has to
        noise()
    found["then"] = error.value.message
    return found


def check_unknown() -> list[list[str]]:
    """What is told when the watch begins after datasets were read, and of the same without it."""
    import tensorflow as tf
    from tensorflow.python.data.ops import iterator_ops

    from tfdist_kit import _read_datasets, enable_op_determinism
    from tfdist_kit.adapters.op_determinism import disabled

    def read(**how: Any) -> Any:
        return tf.data.Dataset.range(4).map(abs, num_parallel_calls=2, **how)

    kept = [read(deterministic=False), read()]
    with pytest.MonkeyPatch.context() as patch:
        owner = iterator_ops.OwnedIterator
        patch.setattr(owner, "_create_iterator", owner._create_iterator.tfdist_original)
        patch.setattr(_read_datasets, "_knows_all", True)
        for each in kept:
            list(each)
        _read_datasets._wrap(iterator_ops)
        with hearing() as unknown:
            enable_op_determinism(1)
    with disabled(), hearing() as known:
        enable_op_determinism(1)
    return [unknown, known]


def check_late_keras() -> list[str]:
    """Layers that were made before: those that have a seed or need none, and those that do."""
    import keras
    from keras.src.backend.common import global_state

    from tfdist_kit import UsageError, enable_op_determinism

    kept = [
        keras.layers.Dense(1, kernel_initializer="zeros"),
        keras.layers.Dropout(0.5, seed=1),
    ]
    enable_op_determinism(1)
    global_state.set_global_attribute("global_random_seed", None)  # as if nobody had seeded it
    found = []
    for name, number in (("Dense", 1), ("Dropout", 0.5)):
        kept.append(getattr(keras.layers, name)(number))
        with pytest.raises(UsageError) as error:
            enable_op_determinism(1)
        found.append(str(error.value).splitlines()[0])
    keras.utils.set_random_seed(1)
    kept.append(keras.layers.Dense(1))
    enable_op_determinism(1)
    return found


# In pytest


def alone(function: str, **kwargs: Any) -> Any:
    [found] = run_workers(f"{HERE}:{function}", workers=0, **kwargs)
    return found


def test_what_was_traced_before_is_refused_or_told() -> None:
    found = alone("check_late")
    assert found["harmless"] == ""
    assert found["noise"].splitlines()[0] == (
        "TFD001: too late for all to be deterministic: the function noise was traced with "
        "RandomUniform"
    )
    for words in (
        "the function loss was traced with SoftmaxCrossEntropyWithLogits",
        "was traced with RandomStandardNormal",
        "call enable_op_determinism first in the program",
    ):
        assert words in found["all"]
    assert found["on"] == [True, False, False]
    [warned] = found["warned"]
    assert warned in found["all"]
    assert "random ops must have a seed" in found["then"]


def test_datasets_that_were_read_before_the_watch_are_told_as_unknown() -> None:
    unknown, known = alone("check_unknown")
    [told] = unknown
    assert "it cannot be known whether these were read before" in told
    assert told.count("the dataset map") == 1
    assert known == []


def test_seeds_that_keras_drew_before_are_refused() -> None:
    late = "TFD001: too late for all to be deterministic: Keras drew"
    assert alone("check_late_keras") == [
        f"{late} 1 seeds itself, for GlorotUniform",
        f"{late} 2 seeds itself, for GlorotUniform, SeedGenerator",
    ]
