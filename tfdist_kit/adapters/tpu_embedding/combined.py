"""One feature's lookup of which TensorFlow's serving lookup has no like: weighted, or quantized.

ids, weights -> of each id: the output row it counts in, and its gain
table rows (quantized) * gain, summed over each output row
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfdist_kit.adapters.tpu_embedding.inputs import check_numbers, same_places
from tfdist_kit.adapters.tpu_embedding.lookups import gains, quantized
from tfdist_kit.adapters.tpu_embedding.requiring import after, require


def combined(path: str, feature: Any, table: Any, given: Any, weight: Any) -> Any:
    """Look one feature up.

    Args:
        path: Its name, for errors.
        feature: Its `FeatureConfig`.
        table: Its table, ``[vocabulary, dim]``.
        given: Ids, int64; a dense tensor without its last axis.
        weight: Weights of the same kind, or None.

    Returns:
        Activations, float32 ``[*output_shape, dim]``.
    """
    config = feature.table.quantization_config
    if isinstance(given, tf.Tensor):
        return quantized(tf.gather(table, given), config)
    ids = given.values
    if weight is not None:
        check_numbers(path, given, weight)
    weights = (
        tf.ones_like(ids, tf.float32) if weight is None else tf.cast(weight.values, tf.float32)
    )
    with after(_weights_fit(path, given, weight)):
        weights = tf.identity(weights)
    rows, kept, shape = _rows(path, feature, given)
    ids, rows, weights = (tf.boolean_mask(each, kept) for each in (ids, rows, weights))
    count = tf.reduce_prod(shape)

    def summed(values: Any) -> Any:
        return tf.math.unsorted_segment_sum(values, rows, count)

    gain = gains(feature.table.combiner, rows, weights, summed)
    vectors = quantized(tf.gather(table, ids), config) * gain[:, tf.newaxis]
    return tf.reshape(
        summed(vectors), tf.concat([shape, tf.constant([feature.table.dim], tf.int64)], 0)
    )


def _weights_fit(path: str, given: Any, weight: Any) -> Any:
    if weight is None:
        return None
    facts = [tf.equal(tf.size(given.values), tf.size(weight.values)), *same_places(given, weight)]
    return require(
        tf.reduce_all(tf.stack(facts)),
        f"the weights of feature {path} have not the indices or splits of its ids",
        "make the weights of the ids: ids.with_values(...), or a SparseTensor of ids.indices",
    )


def _rows(path: str, feature: Any, given: Any) -> tuple[Any, Any, Any]:
    """Each id's output row, whether it counts, and the output shape; all int64."""
    if isinstance(given, tf.SparseTensor):
        return _rows_of_sparse(feature, given)
    return _rows_of_ragged(path, feature, given)


def _rows_of_sparse(feature: Any, given: Any) -> tuple[Any, Any, Any]:
    length = feature.max_sequence_length
    if given.shape.rank == 2 and length and not feature.output_shape:
        sample, position = given.indices[:, 0], given.indices[:, 1]
        shape = tf.stack([given.dense_shape[0], length])
        return sample * length + position, position < length, shape
    shape, rows = given.dense_shape[:-1], given.indices[:, 0]
    for axis in range(1, given.shape.rank - 1):
        rows = rows * shape[axis] + given.indices[:, axis]
    return rows, tf.ones_like(rows, tf.bool), shape


def _rows_of_ragged(path: str, feature: Any, given: Any) -> tuple[Any, Any, Any]:
    batch = tf.cast(given.nrows(), tf.int64)
    sample = tf.cast(given.value_rowids(), tf.int64)
    position = tf.range(tf.size(sample, tf.int64))
    position -= tf.gather(tf.cast(given.row_starts(), tf.int64), sample)
    shape, fits = batch[tf.newaxis], None
    if feature.output_shape:
        shape = tf.constant(feature.output_shape.as_list(), tf.int64)
        fits = require(
            tf.equal(tf.reduce_prod(shape) % tf.maximum(batch, 1), 0),
            f"the rows of output_shape {feature.output_shape} of feature {path} cannot be shared "
            "alike by the batch's samples, which are",
            "give a batch whose size divides the rows of output_shape",
            batch,
        )
    elif feature.max_sequence_length:
        shape = tf.stack([batch, feature.max_sequence_length])
    with after(fits):
        length = tf.reduce_prod(shape) // tf.maximum(batch, 1)  # a batch may be empty
    is_sequence = bool(feature.max_sequence_length and not feature.output_shape) | (length > 1)
    return (
        tf.where(is_sequence, sample * length + position, sample),
        ~is_sequence | (position < length),
        shape,
    )
