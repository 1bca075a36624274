"""A cluster of graph mode next to the one of TF_CONFIG, whose ports are in use."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfdist_kit.conformance.subjects import Subject
from tfdist_kit.launcher.network.ports import HeldPorts
from tfdist_kit.testing import Worker


@dataclass(frozen=True)
class Graph:
    """What a worker has in graph mode.

    Attributes:
        strategy: In whose scope the graph is built.
        config: The ConfigProto that the strategy has changed.
        target: Of this worker's server.
    """

    strategy: Any
    config: Any
    target: str

    def session(self) -> Any:
        """A session of the server, with all variables initialised."""
        import tensorflow as tf

        session = tf.compat.v1.Session(self.target, config=self.config)
        session.run(tf.compat.v1.global_variables_initializer())
        return session


@contextmanager
def graph_of(subject: Subject, worker: Worker, folder: Path, *, v1: bool = True) -> Iterator[Graph]:
    """A graph, with a strategy and a server for it.

    Args:
        subject: Makes the strategy.
        worker: This one.
        folder: Where all workers tell their addresses.
        v1: Whether the strategy is of the compat.v1 class.
    """
    import tensorflow as tf

    with HeldPorts(1) as held, tf.Graph().as_default():
        addresses = _told(worker, folder, f"localhost:{held.numbers[0]}")
        cluster = tf.train.ClusterSpec({"worker": addresses})
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            cluster, task_type="worker", task_id=worker.rank, rpc_layer="grpc"
        )
        make = subject.make_strategy_v1 if v1 else subject.make_strategy
        strategy = make(cluster_resolver=resolver)
        config = strategy.update_config_proto(tf.compat.v1.ConfigProto())
        server = tf.distribute.Server(
            cluster, job_name="worker", task_index=worker.rank, config=config
        )
        yield Graph(strategy, config, server.target)


def _told(worker: Worker, folder: Path, own: str) -> list[str]:
    """The addresses of all workers, in the order of their ranks."""
    half = folder / f"{worker.rank}.half"
    half.write_text(own, encoding="utf-8")
    half.rename(folder / f"{worker.rank}.address")
    files = [folder / f"{rank}.address" for rank in range(worker.size)]
    while not all(file.exists() for file in files):
        time.sleep(0.005)
    return [file.read_text(encoding="utf-8") for file in files]
