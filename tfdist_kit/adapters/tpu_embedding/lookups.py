"""From a batch's features to lookups, from lookups to activations, and from gradients to rows.

features, weights -> of each lookup: the id, the output row it counts in, and its gain
table rows (quantized) * gain, summed over each output row -> activations
gradient of the output row * gain -> the gradient of each lookup's table row

A gain is the lookup's weight, divided as the combiner wants it: by the row's sum of weights
(mean), or the root of its sum of squares (sqrtn).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfdist_kit.adapters.tpu_embedding.inputs import Part, part_of, segments
from tfdist_kit.adapters.tpu_embedding.layout import Group, Place
from tfdist_kit.adapters.tpu_embedding.requiring import after, require

DTYPES = (tf.int32, tf.int64, tf.int32, tf.float32)


@dataclass(frozen=True)
class Lookups:
    """One group's lookups, in the order of its tables.

    Attributes:
        counts: Of each table, int32 ``[tables]``.
        ids: The rows of the tables, int64 ``[n]``.
        rows: The output rows they count in, int32 ``[n]``, in order.
        gains: What their vectors are multiplied by, float32 ``[n]``.
    """

    counts: Any
    ids: Any
    rows: Any
    gains: Any

    def tensors(self) -> list[Any]:
        """All, as `DTYPES` says."""
        return [self.counts, self.ids, self.rows, self.gains]


def lookups_of(
    groups: Sequence[Group], features: Sequence[Any], weights: Sequence[Any]
) -> list[Lookups]:
    """The lookups of one replica's batch.

    Args:
        groups: How the features are packed.
        features: The flattened features.
        weights: As many weights, or None for those that have none.

    Raises:
        UsageError: A feature or weight is not what can be looked up.
        EmbeddingError: Its values are wrong, eagerly; see `require`.
    """
    parts = {
        place.index: part_of(place, features[place.index], weights[place.index])
        for group in groups
        for place in group.features
    }
    facts = [fact for part in parts.values() for fact in part.facts]
    with after(*(_required(facts) if facts else ())):
        return [_lookups(group, parts) for group in groups]


def _required(facts: Sequence[tuple[Any, str]]) -> list[Any]:
    """One operation for all facts, which shows those that do not hold."""
    holds = tf.stack([fact for fact, _ in facts])
    wrong = tf.boolean_mask(tf.constant([text for _, text in facts]), ~holds)
    hint = "give each batch the shape it had at first (drop_remainder=True), and weights like ids"
    message = "a feature's values do not fit its output shape or its weights"
    return [require(tf.reduce_all(holds), message, hint, wrong)]


def _lookups(group: Group, parts: dict[int, Part]) -> Lookups:
    found = [[parts[place.index] for place in places] for places in group.places]
    flat = [part for of_table in found for part in of_table]
    counts = tf.stack([tf.add_n([tf.size(part.ids) for part in of_table]) for of_table in found])
    ids, rows = (_joined([getattr(part, name) for part in flat]) for name in ("ids", "rows"))
    checked = _in_their_tables(group, counts, ids)
    with after(checked):
        weights = _weights(flat, rows)
        if any(part.is_sparse for part in flat):
            ids, rows, weights = _in_order(ids, rows, weights)
        found = gains(group.combiner, rows, weights, lambda each: tf.math.segment_sum(each, rows))
        return Lookups(counts, tf.identity(ids), rows, found)


def _in_order(*lookups: Any) -> list[Any]:
    """A sparse feature's indices may come in any order; sums of rows in order are much faster."""
    _, rows, _ = lookups

    def in_order() -> list[Any]:
        order = tf.argsort(rows, stable=True)  # tables keep theirs: so do their rows
        return [tf.gather(each, order) for each in lookups]

    return list(tf.cond(tf.reduce_all(rows[1:] >= rows[:-1]), lambda: list(lookups), in_order))


def _joined(tensors: Sequence[Any]) -> Any:
    return tensors[0] if len(tensors) == 1 else tf.concat(tensors, 0)


def _weights(parts: Sequence[Part], rows: Any) -> Any:
    if all(part.weights is None for part in parts):
        return tf.ones_like(rows, tf.float32)
    return _joined(
        [tf.ones_like(p.ids, tf.float32) if p.weights is None else p.weights for p in parts]
    )


def _in_their_tables(group: Group, counts: Any, ids: Any) -> Any:
    """A TPU does not say what it does with an id that is no row of its table."""
    sizes = tf.constant([table.vocabulary_size for table in group.tables], tf.int64)
    outside = (ids < 0) | (ids >= _by_lookup(sizes, counts, ids))
    names = ", ".join(f"{table.name} ({table.vocabulary_size} rows)" for table in group.tables)
    return require(
        ~tf.reduce_any(outside),
        f"ids are no rows of their tables, which are {names}",
        "ids of a table go from 0 to vocabulary_size - 1",
        tf.boolean_mask(ids, outside),
    )


def gains(combiner: str, rows: Any, weights: Any, summed: Callable[[Any], Any]) -> Any:
    """What each lookup's vector is multiplied by.

    Args:
        combiner: How the vectors of one output row are put together.
        rows: The output row of each lookup.
        weights: Their weights, float32.
        summed: Sums values over each output row.
    """
    if combiner == "sum":
        return weights
    totals = summed(weights) if combiner == "mean" else tf.sqrt(summed(weights * weights))
    return tf.math.divide_no_nan(weights, tf.gather(totals, rows))


def activations(group: Group, lookups: Lookups, tables: Sequence[Any]) -> dict[int, Any]:
    """What each feature of a group is looked up as.

    Args:
        group: The group.
        lookups: A batch's.
        tables: Its tables, components on this device.

    Returns:
        For each feature's index its activations, float32 ``[*output_shape, dim]``.
    """
    ids = tf.split(lookups.ids, lookups.counts, num=len(tables))
    vectors = _joined(
        [
            quantized(tf.gather(table, of_table), config.quantization_config)
            for table, config, of_table in zip(tables, group.tables, ids, strict=True)
        ]
    )
    gained = vectors * lookups.gains[:, tf.newaxis]
    output = tf.math.segment_sum(gained, lookups.rows)
    output = tf.pad(output, [[0, group.rows - tf.shape(output)[0]], [0, 0]])  # the last, if empty
    # A TPU's tables are out of the tape's reach, and so are these.
    pieces = tf.split(tf.stop_gradient(output), [place.rows for place in group.features])
    return {
        place.index: _shaped(piece, place, group.dim)
        for place, piece in zip(group.features, pieces, strict=True)
    }


def quantized(vectors: Any, config: Any) -> Any:
    """The formula of `QuantizationConfig`'s documentation."""
    if config is None:
        return vectors
    step = (config.upper - config.lower) / (config.num_buckets - 1)
    above = tf.clip_by_value(vectors, config.lower, config.upper) - config.lower
    return tf.floor(above / step + 0.5) * step + config.lower


def _shaped(piece: Any, place: Place, dim: int) -> Any:
    return piece if len(place.shape) == 1 else tf.reshape(piece, [*place.shape, dim])


def row_gradients(group: Group, lookups: Lookups, gradients: Sequence[Any]) -> Any:
    """The gradient of the table row of each lookup, float32 ``[n, dim]``.

    Args:
        group: The group.
        lookups: The batch's.
        gradients: Those of all features' activations, flattened.
    """
    flat = [tf.reshape(gradients[place.index], [-1, group.dim]) for place in group.features]
    return tf.gather(_joined(flat), lookups.rows) * lookups.gains[:, tf.newaxis]


def long_ids(group: Group, lookups: Lookups) -> Any:
    """The lookups' ids in the group's long table, int64 ``[n]``."""
    starts = tf.constant(group.offsets[:-1], tf.int64)
    return lookups.ids + _by_lookup(starts, lookups.counts, lookups.ids)


def _by_lookup(of_tables: Any, counts: Any, ids: Any) -> Any:
    return tf.gather(of_tables, segments(tf.cumsum(counts), tf.size(ids)))
