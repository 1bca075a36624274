"""Where batches wait between the calls of a step: for each local replica, two queues.

enqueue -> waiting -> dequeue -> (training=True) in_training -> apply_gradients

The queues are TensorFlow's own resources, so that the calls may lie in different functions, in
loops or in eager code. What would make a TPU wait for ever is an error here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfdist_kit.adapters.tpu_embedding.requiring import after, require

AHEAD = 64
"""Batches that may wait at a replica: a step that enqueues without dequeuing soon has as many."""

_CPU = "/device:CPU:0"
_NOTHING_WAITS = (
    "dequeue() found no batch that was enqueued; a TPU would wait for ever",
    "call enqueue() once before each dequeue()",
)
_TOO_MANY = (
    f"{AHEAD} batches were enqueued and not dequeued; a TPU would wait for ever",
    "call dequeue() once for each enqueue()",
)
_NOT_APPLIED = (
    "the batch before was enqueued with training=True and never got apply_gradients(); "
    "a TPU may wait for ever",
    "enqueue with training=False where there is no apply_gradients(), or call it; "
    "discard_batches() drops what a failed step has left",
)
_NOTHING_TO_TRAIN = (
    "apply_gradients() found no dequeued batch that was enqueued with training=True; "
    "a TPU may wait for ever",
    "enqueue with training=True, and call dequeue() before apply_gradients()",
)


class Batches:
    """The batches of one local replica.

    Args:
        dtypes: The types of a batch's tensors; all are vectors.
        replica: Its number, for the queues' names.
    """

    def __init__(self, dtypes: Sequence[tf.DType], replica: int) -> None:
        with tf.init_scope(), tf.device(_CPU):
            self._waiting = tf.queue.FIFOQueue(
                AHEAD + 1, [tf.bool, *dtypes], name=f"waiting_{replica}"
            )
            self._in_training = tf.queue.FIFOQueue(2, dtypes, name=f"in_training_{replica}")

    def put(self, training: Any, tensors: Sequence[Any]) -> None:
        """Let a batch wait."""
        with tf.device(_CPU):
            has_room = require(self._waiting.size() < AHEAD, *_TOO_MANY)
            with after(has_room):
                self._waiting.enqueue([tf.cast(training, tf.bool), *tensors])

    def take(self) -> list[Any]:
        """The batch that waited longest; if it is to train, `take_trained` gives it again."""
        with tf.device(_CPU):
            applied = require(tf.equal(self._in_training.size(), 0), *_NOT_APPLIED)
            waits = require(self._waiting.size() > 0, *_NOTHING_WAITS)
            with after(applied, waits):
                training, *tensors = self._waiting.dequeue()
            tf.cond(training, lambda: self._keep(tensors), lambda: False)
        return _vectors(tensors)

    def take_trained(self) -> list[Any]:
        """The batch that was taken last, which is to train."""
        with tf.device(_CPU):
            trains = require(self._in_training.size() > 0, *_NOTHING_TO_TRAIN)
            with after(trains):
                tensors = self._in_training.dequeue()
        return _vectors(tensors if isinstance(tensors, list) else [tensors])

    def left(self) -> tuple[int, int]:
        """How many batches wait, and how many lack their gradients; eagerly."""
        return int(self._waiting.size()), int(self._in_training.size())

    def discard(self) -> None:
        """Drop all; eagerly."""
        for queue in (self._waiting, self._in_training):
            while int(queue.size()):
                queue.dequeue()

    def _keep(self, tensors: Sequence[Any]) -> bool:
        self._in_training.enqueue(list(tensors))
        return True


def _vectors(tensors: Sequence[Any]) -> list[Any]:
    for tensor in tensors:
        tensor.set_shape([None])
    return list(tensors)
