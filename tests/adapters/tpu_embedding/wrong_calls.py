"""Calls with arguments, ids and weights that cannot be right; imported by TensorFlow workers only.

Each function returns the errors of its variants, as class and text; "" for none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

import tfdist_kit
from tfdist_kit.adapters.tpu_embedding import serving_lookup

KINDS = tf.tpu.experimental.embedding
Errors = list[tuple[str, str]]
IDS = np.array([1, 2])


def error_of(function: Callable[[], Any]) -> tuple[str, str]:
    """Class and text of what it raises."""
    try:
        function()
    except Exception as error:
        return type(error).__name__, str(error)
    return "", ""


def made(rate: Any = 0.1, *, alone: bool = False, **feature: Any) -> Any:
    """An embedding of one feature, "ids", or of one that has no name."""
    table = KINDS.TableConfig(10, 2, name="table", combiner="sum")
    config = KINDS.FeatureConfig(table, **feature)
    return tfdist_kit.tpu_embedding(config if alone else {"ids": config}, KINDS.SGD(rate))


def arguments() -> Errors:
    """What is no flag, no feature, no rate."""
    embedding = made()
    enqueue = embedding.enqueue
    return [
        error_of(lambda: enqueue({"ids": IDS}, training=None)),
        error_of(lambda: enqueue({"ids": IDS}, training="no")),
        error_of(lambda: enqueue({"ids": IDS}, training=tf.constant([True]))),
        error_of(lambda: enqueue({"ids": None})),
        error_of(lambda: enqueue({"ids": object()})),
        error_of(lambda: _trained(None)),
        error_of(lambda: _trained("0.1")),
        error_of(lambda: _trained([0.1, 0.2])),
        error_of(lambda: enqueue({"ids": IDS}, training=tf.constant(False))),
        error_of(lambda: enqueue({"ids": IDS}, training=np.bool_(False))),
        error_of(lambda: _trained(tf.Variable(0.1))),
    ]


def _trained(rate: Any) -> None:
    embedding = made(lambda: rate)
    embedding.enqueue({"ids": IDS})
    embedding.apply_gradients(embedding.dequeue())


def ranks() -> Errors:
    """Ids of a rank or last dimension that cannot be looked up, before and after it is built."""
    built = made()
    built.build({"ids": [2, 1]})

    def traced(embedding: Any) -> Callable[[], Any]:
        enqueue = tf.function(embedding.enqueue)
        return lambda: enqueue.get_concrete_function({"ids": tf.TensorSpec(None, tf.int64)})

    def given(ids: Any) -> Callable[[], Any]:
        return lambda: made().enqueue({"ids": ids})

    return [
        error_of(traced(built)),
        error_of(traced(made())),
        error_of(given(tf.constant([[1, 2], [3, 4]]))),
        error_of(given(tf.constant(1))),
        error_of(given(tf.ragged.constant([[[1], [2]], [[3]]]))),
        error_of(given(tf.SparseTensor([[0]], [1], [2]))),
        error_of(lambda: made(alone=True).enqueue(tf.constant([True]))),
        error_of(lambda: made(alone=True).enqueue(None)),
    ]


def places() -> Errors:
    """Weights of other splits or indices, by a step eagerly and traced, and by a lookup."""
    ids = tf.ragged.constant([[1, 2], [3]], dtype=tf.int64)
    sparse = tf.SparseTensor([[0, 1], [0, 2], [1, 0]], [1, 2, 3], [2, 5])
    of_ids = {"ragged": ids, "sparse": sparse}
    wrong = {
        "ragged": tf.ragged.constant([[1.0], [2.0, 3.0]]),
        "sparse": tf.SparseTensor([[0, 1], [1, 0], [1, 1]], [1.0, 2.0, 3.0], [2, 5]),
    }
    longer = tf.ragged.constant([[1.0], [2.0], [3.0]])
    right = tf.RaggedTensor.from_row_lengths([1.0, 2.0, 3.0], tf.constant([2, 1]))
    pairs = [(of_ids[kind], wrong[kind]) for kind in of_ids]
    pairs += [(ids, longer), (ids, right), (ids, ids.with_values([1.0, 2.0, 3.0]))]
    pairs += [(ids, tf.ragged.constant([[[1.0], [2.0]], [[3.0]]], ragged_rank=1))]
    pairs += [(ids, tf.ragged.constant([["1", "2"], ["3"]]))]
    return [each for pair in pairs for each in _weighed(*pair)]


def _weighed(ids: Any, weights: Any) -> Errors:
    embedding = made()
    embedding.build({"ids": [2, None]})
    enqueue = tf.function(lambda *given: embedding.enqueue(*given))

    return [
        error_of(lambda: embedding.enqueue({"ids": ids}, {"ids": weights})),
        error_of(lambda: enqueue({"ids": ids}, {"ids": weights})),
        error_of(lambda: serving_lookup(embedding, {"ids": ids}, {"ids": weights})),
    ]


def compiled() -> Errors:
    """A step that XLA compiles, and one in which XLA compiles only a part."""
    embedding = made()
    embedding.build({"ids": [2, 1]})

    def enqueue() -> None:
        embedding.enqueue({"ids": IDS})

    def dequeue() -> Any:
        return embedding.dequeue()

    def apply() -> None:
        embedding.apply_gradients({"ids": tf.ones([2, 2])})

    double = tf.function(lambda value: 2.0 * value, jit_compile=True)

    def in_part() -> None:
        embedding.enqueue({"ids": IDS})
        embedding.apply_gradients({"ids": double(embedding.dequeue()["ids"])})

    calls: Sequence[Callable[[], Any]] = (enqueue, dequeue, apply)
    return [
        *(error_of(tf.function(call, jit_compile=True)) for call in calls),
        error_of(tf.function(in_part)),
    ]


def in_graphs() -> Errors:
    """Python's answers, asked for in a graph."""
    embedding = made()
    embedding.build({"ids": [2, 1]})

    def unfinished() -> None:
        embedding.unfinished()

    def discard() -> None:
        embedding.discard_batches()

    return [error_of(tf.function(call)) for call in (unfinished, discard)]


def empty() -> Errors:
    """What is looked up, and learned, of a batch without samples, as of a worker without data."""
    kinds = {
        "dense": tf.zeros([0, 1], tf.int64),
        "deep": tf.zeros([0, 3, 1], tf.int64),
        "sparse": tf.SparseTensor(tf.zeros([0, 2], tf.int64), tf.zeros([0], tf.int64), [0, 4]),
        "ragged": tf.RaggedTensor.from_row_splits(tf.zeros([0], tf.int64), [0]),
    }
    table = KINDS.TableConfig(10, 2, name="table", initializer=tf.ones_initializer())
    shapes = {name: [2, 3] if name == "deep" else [2] for name in kinds}
    config = {name: KINDS.FeatureConfig(table, output_shape=shapes[name]) for name in kinds}
    embedding = tfdist_kit.tpu_embedding(config, KINDS.SGD(0.1))
    embedding.build()

    def step(batch: Any) -> Any:
        embedding.enqueue(batch)
        shown = embedding.dequeue()
        embedding.apply_gradients(tf.nest.map_structure(tf.ones_like, shown))
        return shown

    found = []
    specs = tf.nest.map_structure(_without_batch, kinds)
    for call in (step, tf.function(step, input_signature=[specs])):
        shown = call(kinds)
        sums = [float(tf.reduce_sum(each)) for each in shown.values()]
        sizes = [each.shape.as_list() for each in shown.values()]
        total = float(tf.reduce_sum(embedding.embedding_tables[table]))
        found.append(("", f"{sums} {sizes} {total}"))
    return found


def _without_batch(tensor: Any) -> Any:
    spec = tf.type_spec_from_value(tensor)
    shape = [None, *spec.shape[1:]]
    if isinstance(spec, tf.TensorSpec):
        return tf.TensorSpec(shape, spec.dtype)
    kind = tf.SparseTensorSpec if isinstance(spec, tf.SparseTensorSpec) else tf.RaggedTensorSpec
    return kind([None, None], spec.dtype)
