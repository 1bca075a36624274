"""One feature of a batch as ids and the output rows they count in.

dense -> one id for each row      sparse -> the row from its indices, all but the last
ragged -> the row from its splits      sequences -> a row for each position, cut at the length
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf

from tfdist_kit._errors import UsageError
from tfdist_kit.adapters.tpu_embedding.layout import Place


@dataclass(frozen=True)
class Part:
    """One feature's lookups.

    Attributes:
        ids: int64 ``[n]``.
        rows: The output rows in the group, int32 ``[n]``.
        weights: float32 ``[n]``, or None.
        facts: What must hold of the values, each with what it means if it does not.
        is_sparse: Whether the rows may be out of order.
    """

    ids: Any
    rows: Any
    weights: Any
    facts: tuple[tuple[Any, str], ...]
    is_sparse: bool = False


def part_of(place: Place, given: Any, weight: Any) -> Part:
    """The lookups of one feature.

    Raises:
        UsageError: The feature or its weight is of a wrong kind or type.
    """
    if isinstance(given, tf.SparseTensor):
        _check_types(place, given, weight, tf.SparseTensor)
        return _of_sparse(place, given, weight)
    if isinstance(given, tf.RaggedTensor):
        _check_types(place, given, weight, tf.RaggedTensor)
        return _of_ragged(place, given, weight)
    if not isinstance(given, tf.Tensor):
        raise UsageError(
            f"feature {place.path} is of unknown type {type(given).__name__}",
            hint="give enqueue() a Tensor, SparseTensor or RaggedTensor for each feature",
        )
    _check_types(place, given, weight, None)
    return _of_dense(place, given)


def _check_types(place: Place, ids: Any, weight: Any, kind: Any) -> None:
    if not ids.dtype.is_integer:
        raise UsageError(
            f"the ids of feature {place.path} are {ids.dtype.name}",
            hint="cast them to tf.int64 where the dataset is made; a TPU would cut them silently",
        )
    if weight is None:
        return
    if kind is None:
        raise UsageError(
            f"a weight is given for the dense feature {place.path}, where it is always 1",
            hint="give None for it, or make the feature sparse or ragged",
        )
    if not isinstance(weight, kind):
        raise UsageError(
            f"the weight of feature {place.path} is a {type(weight).__name__}, "
            f"the feature a {kind.__name__}",
            hint="give weights of the feature's own kind, with its indices or splits",
        )
    check_numbers(place.path, ids, weight)


def check_numbers(path: str, ids: Any, weight: Any) -> None:
    """Refuse weights that are not one number for each id.

    Raises:
        UsageError: They are not.
    """
    is_number = weight.dtype.is_floating or weight.dtype.is_integer
    if weight.shape.rank != ids.shape.rank or not is_number:
        raise UsageError(
            f"the weight of feature {path} is {weight.dtype.name} of rank {weight.shape.rank}, "
            f"the feature of rank {ids.shape.rank}",
            hint="give one number for each id",
        )


def _of_dense(place: Place, given: Any) -> Part:
    ids = tf.cast(tf.reshape(given, [-1]), tf.int64)
    count = given.shape.num_elements()
    if count == place.rows:
        return Part(ids, tf.range(place.start, place.start + place.rows), None, ())
    size = tf.size(ids)
    fits = tf.equal(size, place.rows) | tf.equal(size, 0)
    text = f"dense feature {place.path}: not {list(place.shape)} ids"
    return Part(ids, tf.range(place.start, place.start + size), None, ((fits, text),))


def _of_sparse(place: Place, given: Any, weight: Any) -> Part:
    indices = tf.cast(given.indices, tf.int32)
    shape = place.shape
    is_sequence = place.is_sequence and given.shape.rank == 2
    if not is_sequence and len(shape) != given.shape.rank - 1:
        raise UsageError(
            f"sparse feature {place.path} of rank {given.shape.rank} cannot get the output shape "
            f"{list(shape)}, which needs rank {len(shape) + 1}",
            hint="only ragged features may get an output shape of another rank",
        )
    facts = _sparse_facts(place, given, weight, shape[:1] if is_sequence else shape)
    rows = indices[:, 0]
    for axis, size in enumerate(shape[1:], start=1):
        rows = rows * size + indices[:, axis]
    kept = indices[:, 1] < shape[1] if is_sequence else None
    weights = None if weight is None else weight.values
    return replace(_part(place, given.values, rows, weights, kept, facts), is_sparse=True)


def _sparse_facts(
    place: Place, given: Any, weight: Any, outer: tuple[int, ...]
) -> list[tuple[Any, str]]:
    inside = tf.reduce_all((given.indices >= 0) & (given.indices < given.dense_shape))
    facts = [(inside, f"sparse feature {place.path}: indices beyond its dense_shape")]
    if tuple(given.shape.as_list()[: len(outer)]) != outer:
        same = tf.reduce_all(tf.equal(given.dense_shape[: len(outer)], outer))
        fits = same | tf.equal(given.dense_shape[0], 0)
        facts.append((fits, f"sparse feature {place.path}: not {list(outer)} rows of ids"))
    if weight is not None:
        facts += _same_places(place, given, weight)
    return facts


def _same_places(place: Place, given: Any, weight: Any) -> list[tuple[Any, str]]:
    text = f"feature {place.path}: weights of other {_where(given)}"
    facts = _same_count(place, given.values, weight.values)
    return facts + [(same, text) for same in same_places(given, weight)]


def _where(given: Any) -> str:
    return "indices" if isinstance(given, tf.SparseTensor) else "row_splits"


def same_places(given: Any, weight: Any) -> list[Any]:
    """Whether ids and weights have the same indices or splits; nothing if they share them."""
    of_ids, of_weights = (getattr(each, _where(given)) for each in (given, weight))
    if of_ids is of_weights:
        return []
    if of_ids.dtype != of_weights.dtype:
        of_ids, of_weights = (tf.cast(each, tf.int64) for each in (of_ids, of_weights))
    same = tf.raw_ops.Equal(x=of_ids, y=of_weights, incompatible_shape_error=False)
    return [tf.reduce_all(tf.reshape(same, [-1]))]


def _same_count(place: Place, ids: Any, weights: Any) -> list[tuple[Any, str]]:
    text = f"feature {place.path}: not a weight for each id"
    if None in (ids.shape[0], weights.shape[0]):
        return [(tf.equal(tf.size(ids), tf.size(weights)), text)]
    if ids.shape[0] != weights.shape[0]:
        raise UsageError(
            f"{text}: {ids.shape[0]} ids, {weights.shape[0]} weights",
            hint="give weights with the feature's own indices or splits",
        )
    return []


def _of_ragged(place: Place, given: Any, weight: Any) -> Part:
    batch = given.shape[0] or place.shape[0]
    if place.rows % batch:
        raise UsageError(
            f"output shape {list(place.shape)} of ragged feature {place.path} has {place.rows} "
            f"rows, which {batch} samples cannot share alike",
            hint="give the ragged feature's FeatureConfig another output_shape",
        )
    facts = []
    if given.shape[0] is None:
        text = f"ragged feature {place.path}: not {batch} samples"
        fits = tf.equal(given.nrows(), batch) | tf.equal(given.nrows(), 0)
        facts.append((fits, text))
    if weight is not None:
        facts += _same_places(place, given, weight)
    rows, kept = segments(given.row_splits[1:], tf.size(given.values)), None
    length = place.rows // batch
    if length > 1 or place.is_sequence:
        begins = tf.gather(tf.cast(given.row_starts(), tf.int32), rows)
        position = tf.range(tf.size(rows)) - begins
        rows, kept = rows * length + position, position < length
    return _part(place, given.values, rows, None if weight is None else weight.values, kept, facts)


def segments(ends: Any, count: Any) -> Any:
    """For each of `count` values the segment it lies in: int32, in one operation.

    `RaggedTensor.value_rowids` and `tf.repeat` say the same in some fifty.
    """
    values = tf.range(tf.cast(count, ends.dtype))
    found = tf.raw_ops.UpperBound(sorted_inputs=ends[tf.newaxis], values=values[tf.newaxis])
    return tf.reshape(found, [-1])


def _part(
    place: Place, values: Any, rows: Any, weights: Any, kept: Any, facts: list[tuple[Any, str]]
) -> Part:
    ids = tf.cast(values, tf.int64)
    rows = rows + place.start if place.start else rows
    weights = None if weights is None else tf.cast(weights, tf.float32)
    if kept is not None:
        ids, rows = tf.boolean_mask(ids, kept), tf.boolean_mask(rows, kept)
        weights = None if weights is None else tf.boolean_mask(weights, kept)
    return Part(ids, rows, weights, tuple(facts))
