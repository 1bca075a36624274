"""Tables that are cut into shards, as those of a TPU with several hosts are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


@contextmanager
def sharded(hosts: int) -> Iterator[None]:
    """Have tables that are made meanwhile cut into shards, by TensorFlow's own creator.

    Args:
        hosts: How many hosts there are said to be.
    """
    import tensorflow as tf
    from tensorflow.python.tpu import tpu_embedding_v2

    creator = tpu_embedding_v2.make_sharded_variable_creator([CPU] * hosts)
    with tf.variable_creator_scope(creator):
        yield
