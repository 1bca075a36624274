"""Where a graph leaves the digests of its newest steps, for Python to read after each execution.

    [rows, 1 + n] of int64: each row is the number of its step and n numbers, the newest row last

It is a bare resource: no strategy mirrors it, no model or checkpoint tracks it, XLA can write it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

_numbers = itertools.count()


class Slot:
    """Room for the last steps of one execution of a train function.

    Args:
        rows: How many steps one execution may make.
        width: How many numbers a step has.
        graph: The graph of the step.
    """

    def __init__(self, rows: int, width: int, graph: Any) -> None:
        import tensorflow as tf

        self.graph = graph
        shape = [rows, 1 + width]
        with tf.init_scope():
            # Eagerly, each call makes a resource of its own as long as the name is new.
            name = f"tfdist_slot_{next(_numbers)}"
            self._handle = tf.raw_ops.VarHandleOp(dtype=tf.int64, shape=shape, shared_name=name)
            tf.raw_ops.AssignVariableOp(resource=self._handle, value=tf.zeros(shape, tf.int64))
        self._seen = 0

    def put(self, numbers: Any) -> Any:
        """The op that leaves the numbers of one more step; made in the graph of the step."""
        import tensorflow as tf

        rows = self._read()
        row = tf.concat([rows[-1, :1] + 1, numbers], axis=0)
        new = tf.concat([rows[1:], row[tf.newaxis]], axis=0)
        return tf.raw_ops.AssignVariableOp(resource=self._handle, value=new)

    def take(self) -> Iterator[Any]:
        """The numbers of each step since the last call."""
        rows = self._read().numpy()
        for row in rows[rows[:, 0] > self._seen]:
            yield row[1:]
        self._seen = int(rows[-1, 0])

    def _read(self) -> Any:
        import tensorflow as tf

        return tf.raw_ops.ReadVariableOp(resource=self._handle, dtype=tf.int64)
