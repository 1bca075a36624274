"""The sums of a step's row gradients over all replicas, sparse also between workers.

each replica's (ids, gradients) -> one pair for each worker, repeats summed
    -> between workers: the count of each worker's rows and the first chunk of them, at once
    -> further chunks of the same shape, as many as the worker with most rows needs
    -> repeats summed again, by every worker in the same order: updates are the same bits

A collective operation may not change its shape while one function runs, and lookups differ in
number between workers and steps; so it is the number of chunks that differs. A chunk travels as a
sum of what is zero but in the sender's own place, which changes no bit of a gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfdist_kit.adapters.tpu_embedding import replicas

_HALF = 2**24
"""An id is two whole numbers below this, which float32 holds exactly: ids go up to 2**48."""


@dataclass(frozen=True)
class Rows:
    """Gradients of the rows of tables that have one dim.

    Attributes:
        ids: By replica, int64 ``[n]``, with repeats; n differs.
        gradients: By replica, float32 ``[n, dim]``.
        dim: The width.
        chunk: How many rows are exchanged at once.
    """

    ids: Any
    gradients: Any
    dim: int
    chunk: int


def summed(strategy: Any, worker: int, parts: Sequence[Rows]) -> list[tuple[Any, Any]]:
    """Sum over replicas and workers; in the strategy's cross-replica context.

    Args:
        strategy: The strategy.
        worker: The number of this worker.
        parts: What to sum, of each dim.

    Returns:
        For each part the ids, each once, and their gradients; the same on all workers.
    """
    own = [_local(strategy, part) for part in parts]
    workers = replicas.workers(strategy)
    if workers == 1:
        return own

    def exchanged(vector: Any) -> Any:
        places = tf.pad(vector[tf.newaxis], [[worker, workers - 1 - worker], [0, 0]])
        return strategy.reduce("SUM", places, axis=None)

    sizes = [part.chunk * (part.dim + 2) for part in parts]
    packed = [_packed(*pair) for pair in own]
    counts = tf.stack([tf.size(ids) for ids, _ in own])
    first = [_chunk(rows, 0, part) for rows, part in zip(packed, parts, strict=True)]
    header = exchanged(tf.concat([tf.cast(counts, tf.float32), *first], 0))
    counts, *firsts = tf.split(header, [len(parts), *sizes], axis=1)
    counts = tf.cast(counts, tf.int32)
    return [
        once(*_unpacked(_all(exchanged, rows, part, counts[:, i], firsts[i]), counts[:, i], part))
        for i, (rows, part) in enumerate(zip(packed, parts, strict=True))
    ]


def _local(strategy: Any, part: Rows) -> tuple[Any, Any]:
    ids = tf.concat(strategy.experimental_local_results(part.ids), 0)
    return once(ids, tf.concat(strategy.experimental_local_results(part.gradients), 0))


def once(ids: Any, gradients: Any) -> tuple[Any, Any]:
    """Each id once, with the sum of its gradients."""
    once, where = tf.unique(ids)
    return once, tf.math.unsorted_segment_sum(gradients, where, tf.size(once))


def _packed(ids: Any, gradients: Any) -> Any:
    halves = tf.cast(tf.stack([ids // _HALF, ids % _HALF], 1), tf.float32)
    return tf.concat([halves, gradients], 1)


def _chunk(rows: Any, number: Any, part: Rows) -> Any:
    found = rows[number * part.chunk : (number + 1) * part.chunk]
    filled = tf.pad(found, [[0, part.chunk - tf.shape(found)[0]], [0, 0]])
    return tf.reshape(filled, [part.chunk * (part.dim + 2)])


def _all(exchanged: Any, rows: Any, part: Rows, counts: Any, first: Any) -> Any:
    """All chunks of all workers: ``[chunks, workers, chunk * (dim + 2)]``."""
    chunks = (tf.reduce_max(counts) + part.chunk - 1) // part.chunk
    found = tf.TensorArray(tf.float32, tf.maximum(chunks, 1), element_shape=first.shape)

    def further(number: Any, found: Any) -> tuple[Any, Any]:
        all_workers = exchanged(_chunk(rows, number, part))
        with tf.control_dependencies([all_workers]):  # no chunk overtakes another
            return number + 1, found.write(number, all_workers)

    _, found = tf.while_loop(
        lambda number, _: number < chunks,
        further,
        (1, found.write(0, first)),
        parallel_iterations=1,
    )
    return found.stack()


def _unpacked(chunks: Any, counts: Any, part: Rows) -> tuple[Any, Any]:
    """The ids and gradients of one worker after the other, without what filled the chunks."""
    by_worker = tf.transpose(chunks, [1, 0, 2])
    by_worker = tf.reshape(by_worker, [chunks.shape[1], -1, part.dim + 2])
    rows = tf.boolean_mask(by_worker, tf.sequence_mask(counts, tf.shape(by_worker)[1]))
    halves = tf.cast(rows[:, :2], tf.int64)
    return halves[:, 0] * _HALF + halves[:, 1], rows[:, 2:]
