"""Graph mode in a worker that has run in eager mode before, and will again.

    graph(subject) -> a strategy, in a graph of its own -> session: on this worker's running server
    in_a_session(strategy) -> a graph and a session of a strategy that was made in eager mode

The server is the one that the first strategy of this process has started in eager mode, so that no
process has to be given up for a check in graph mode.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tfdist_kit.conformance.subjects import Subject


@contextlib.contextmanager
def graph(subject: Subject) -> Iterator[Any]:
    """A graph to build in; gives the strategy."""
    import tensorflow as tf

    subject.make_strategy_v1()  # starts the server, if nothing has yet
    with tf.Graph().as_default():
        yield subject.make_strategy_v1()


def session(strategy: Any) -> Any:
    """A session on this worker's own server, which its peers reach, as the strategy wants it."""
    import tensorflow as tf

    resolver = strategy.cluster_resolver
    address = resolver.cluster_spec().task_address(resolver.task_type, resolver.task_id)
    config = strategy.update_config_proto(tf.compat.v1.ConfigProto())
    return tf.compat.v1.Session(f"grpc://{address}", config=config)


@contextlib.contextmanager
def in_a_session(strategy: Any) -> Iterator[Any]:
    """A graph of its own, and a session for it."""
    import tensorflow as tf

    with tf.Graph().as_default(), session(strategy) as one:
        yield one
