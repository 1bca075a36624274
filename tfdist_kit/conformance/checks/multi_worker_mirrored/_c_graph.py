"""Graph mode in a worker that has run in eager mode before, and will again.

    graph(subject) -> a strategy, in a graph of its own -> session: on this worker's running server

The server is the one that the first strategy of this process has started in eager mode, so that no
process has to be given up for a check in graph mode.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any

from tfdist_kit.conformance.subjects import Subject
from tfdist_kit.testing.worker import Worker


@contextlib.contextmanager
def graph(subject: Subject) -> Iterator[Any]:
    """A graph to build in; gives the strategy."""
    import tensorflow as tf

    subject.make_strategy_v1()  # starts the server, if nothing has yet
    with tf.Graph().as_default():
        yield subject.make_strategy_v1()


def cluster_of_workers() -> dict[str, list[str]]:
    """The cluster in ``TF_CONFIG``."""
    cluster: dict[str, list[str]] = json.loads(os.environ["TF_CONFIG"])["cluster"]
    return cluster


def session(strategy: Any, worker: Worker) -> Any:
    """A session of this worker, set up as the strategy wants it."""
    import tensorflow as tf

    address = cluster_of_workers()["worker"][worker.rank]
    config = strategy.update_config_proto(tf.compat.v1.ConfigProto())
    return tf.compat.v1.Session(f"grpc://{address}", config=config)
