"""Steps of a TPU that are traced where there is none: the rig, and what is read from a graph.

traced() -> TPUStrategy over a made-up topology -> a step is traced -> ops(), constants(), proto()

The class is TensorFlow's own or the kit's, as `subject` makes it; the rig only lets it `build`
without hardware. Nothing that is traced can run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PLAIN: Any = {"low_dimensional_packing_status": 0}
"""For every optimizer here: with its default, TensorFlow puts a bool where protobuf takes a number.

The claim that is about just that is the only one that leaves it out.
"""
ENQUEUE = "EnqueueTPUEmbeddingArbitraryTensorBatch"
DEQUEUE = "RecvTPUEmbeddingActivations"
APPLY = "SendTPUEmbeddingGradients"


@contextmanager
def traced(hosts: int = 1, cores_per_host: int = 2) -> Iterator[Any]:
    """A TPUStrategy over a made-up topology; meanwhile its embeddings can `build`.

    Args:
        hosts: How many hosts there are said to be.
        cores_per_host: How many cores of each, a replica each.
    """
    from tfdist_kit.adapters.tpu_embedding import made_up_tpu

    with made_up_tpu(hosts=hosts, cores_per_host=cores_per_host) as strategy:
        yield strategy


def sgd(rate: Any = 0.1, **arguments: Any) -> Any:
    """An optimizer that a step can be traced with.

    Args:
        rate: Its learning rate: a number, or a function of no arguments.
        arguments: More of TensorFlow's class.
    """
    import tensorflow as tf

    return tf.tpu.experimental.embedding.SGD(rate, **PLAIN, **arguments)


def nodes(concrete: Any) -> list[Any]:
    """All nodes of a traced function and of those that it calls, as NodeDefs."""
    graph = concrete.graph.as_graph_def()
    return [*graph.node, *(node for each in graph.library.function for node in each.node_def)]


def ops(concrete: Any) -> Counter[str]:
    """How often each op of the embedding engine is in a traced function."""
    return Counter(node.op for node in nodes(concrete) if "TPUEmbedding" in node.op)


def modes(concrete: Any) -> list[str]:
    """The mode that each enqueue of a traced function is told: train or inference."""
    graph = concrete.graph.as_graph_def()
    found = []
    for scope in (graph.node, *(each.node_def for each in graph.library.function)):
        named = {node.name: node for node in scope}
        for node in scope:
            if node.op == ENQUEUE:
                last = [name for name in node.input if not name.startswith("^")][-1]
                values = named[last.partition(":")[0]].attr["value"].tensor.string_val
                found += [value.decode() for value in values]
    return found


def proto(embedding: Any) -> Any:
    """What an embedding that has been built tells the engine of its tables and features."""
    return embedding._config_proto
