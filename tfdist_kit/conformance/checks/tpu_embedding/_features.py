"""Features of given shapes, and what a TPUEmbedding makes of them.

specs -> a step that is traced over a made-up TPU, or values of them -> host mode -> activations
"""

from __future__ import annotations

from typing import Any

import pytest

from tfdist_kit.conformance.checks.tpu_embedding._traced import sgd, traced
from tfdist_kit.conformance.subjects import STOCK, Subject

TRACED, HOST = WAYS = ("traced", "host")
ways = pytest.mark.parametrize("way", WAYS)
"""Both: as a TPU would have it, and as it runs without one, which TensorFlow's class does not."""


def table(rows: int = 6, dim: int = 3, **more: Any) -> Any:
    """A table, whose arguments are those of TensorFlow's TableConfig."""
    import tensorflow as tf

    return tf.tpu.experimental.embedding.TableConfig(rows, dim, **more)


def feature(of: Any = None, **more: Any) -> Any:
    """A feature of a table, a new one if none is given."""
    import tensorflow as tf

    return tf.tpu.experimental.embedding.FeatureConfig(table=of or table(), **more)


def dense(*shape: int | None, dtype: str = "int64") -> Any:
    """A dense feature of this shape."""
    import tensorflow as tf

    return tf.TensorSpec(shape, dtype)


def sparse(*shape: int | None, dtype: str = "int64") -> Any:
    """A sparse feature of this shape."""
    import tensorflow as tf

    return tf.SparseTensorSpec(shape, dtype)


def ragged(*shape: int | None, dtype: str = "int64") -> Any:
    """A ragged feature of this shape, None where rows have lengths of their own."""
    import tensorflow as tf

    return tf.RaggedTensorSpec(shape, dtype, ragged_rank=len(shape) - 1)


def value(spec: Any) -> Any:
    """A tensor of a kind and shape, with few and small ids."""
    import tensorflow as tf

    if isinstance(spec, tf.SparseTensorSpec):
        ones = tf.ones([1], spec.dtype)
        return tf.SparseTensor(tf.zeros([1, len(spec.shape)], tf.int64), ones, spec.shape)
    if isinstance(spec, tf.RaggedTensorSpec):
        return tf.ragged.constant([[0, 1]] * spec.shape[0], spec.dtype)
    return tf.ones(spec.shape, spec.dtype)


def trace(function: Any, *arguments: Any) -> Any:
    """Trace a function once, as it stands, under a name: ops are called after it."""
    import tensorflow as tf

    def traced_function(*arguments: Any) -> Any:
        return function(*arguments)

    return tf.function(traced_function, autograph=False).get_concrete_function(*arguments)


def activations(
    subject: Subject, config: Any, *batches: Any, build: Any = None, way: str = TRACED
) -> Any:
    """What dequeue gives for batches that were enqueued one after another.

    Args:
        subject: Makes the embedding.
        config: Its features.
        batches: A structure of specs each.
        build: Shapes that build is called with first, if it is.
        way: Whether a step is traced over a made-up TPU, or run in host mode.

    Returns:
        The activations: symbolic ones, if the step was traced.
    """
    if way == HOST:
        return _run(subject, config, batches, build)
    with traced(cores_per_host=1) as strategy:
        with strategy.scope():
            embedding = subject.make_embedding(config, sgd())
        if build is not None:
            embedding.build(build)
        found: list[Any] = []

        def step(*batches: Any) -> None:
            for each in batches:
                embedding.enqueue(each)
            strategy.run(lambda: found.append(embedding.dequeue()))

        trace(step, *batches)
        return found[0]


def _run(subject: Subject, config: Any, batches: Any, build: Any) -> Any:
    import tensorflow as tf

    embedding = without_a_tpu(subject, config, sgd())
    if build is not None:
        embedding.build(build)
    strategy = tf.distribute.get_strategy()
    for each in batches:
        embedding.enqueue(tf.nest.map_structure(value, each), training=False)
        found = strategy.run(embedding.dequeue)
    return found


def without_a_tpu(subject: Subject, *arguments: Any) -> Any:
    """An embedding that runs its steps without a TPU; TensorFlow has none."""
    if subject.kind == STOCK:
        pytest.skip("a TPU; without one, TensorFlow's class runs no step")
    return subject.make_embedding(*arguments)


def output_shapes(subject: Subject, config: Any, *batches: Any, **more: Any) -> Any:
    """The output shapes of features; the arguments are those of `activations`."""
    import tensorflow as tf

    found = activations(subject, config, *batches, **more)
    return tf.nest.map_structure(lambda one: tuple(one.shape[:-1]), found)


def output_shape(
    subject: Subject, *inputs: Any, build: Any = None, way: str = TRACED, **more: Any
) -> Any:
    """The output shape of one feature.

    Args:
        subject: Makes the embedding.
        inputs: What is enqueued, a spec each.
        build: The input shape that build is called with first, if it is.
        way: See `activations`.
        more: Arguments of the feature's config.
    """
    import tensorflow as tf

    batches = [{"f": each} for each in inputs]
    shape = None if build is None else {"f": tf.TensorShape(build)}
    config = {"f": feature(**more)}
    return output_shapes(subject, config, *batches, build=shape, way=way)["f"]
