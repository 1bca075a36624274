"""What stays as it is although the switch is on."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

from tfdist_kit.conformance.checks.op_determinism import _data
from tfdist_kit.conformance.checks.op_determinism._ops import SEED, digest, prepared, search
from tfdist_kit.conformance.stage import Stage


def session(stage: Stage) -> None:
    """Assignments of one variable in one run of a v1 Session."""
    import tensorflow as tf

    prepared()
    stage.subject.enable_op_determinism(SEED)
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        variable = v1.get_variable("variable", initializer=1.0, use_resource=True)
        assignments = [
            tf.raw_ops.AssignVariableOp(resource=variable.handle, value=tf.constant(float(number)))
            for number in range(16)
        ]
        value = variable.read_value()
        session.run(variable.initializer)

        def run() -> Any:
            session.run(assignments)
            return session.run(value)

        stage.say("session", results=_different(run))


def _different(run: Any, tries: int = 2000) -> int:
    seen = {float(run())}
    while len(seen) == 1 and tries:
        seen.add(float(run()))
        tries -= 1
    return len(seen)


def parameter_server(stage: Stage) -> None:
    """Two workers that train by a parameter server, all in this process."""
    import tensorflow as tf

    prepared()
    stage.subject.enable_op_determinism(SEED)
    with _servers("ps", "worker", "worker") as cluster:
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec(cluster), rpc_layer="grpc"
        )
        strategy = tf.distribute.experimental.ParameterServerStrategy(resolver)
        coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        with strategy.scope():
            variable = tf.Variable(0.0)

        @tf.function
        def step(number: Any) -> None:
            variable.assign(variable * 0.9 + number)

        def run() -> Any:
            variable.assign(0.0)
            for number in range(20):
                coordinator.schedule(step, (tf.constant(float(number)),))
            coordinator.join()
            return variable.read_value()

        stage.say("parameter server", results=search(run, 5.0))


@contextlib.contextmanager
def _servers(*jobs: str) -> Iterator[dict[str, list[str]]]:
    """Servers of TensorFlow's in this process, which live as long as it does."""
    import tensorflow as tf

    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in jobs]
        for each in sockets:
            each.bind(("localhost", 0))
        ports = [each.getsockname()[1] for each in sockets]
    cluster: dict[str, list[str]] = {}
    for job, port in zip(jobs, ports, strict=True):
        cluster.setdefault(job, []).append(f"localhost:{port}")
    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=4)  # with fewer it stands still
    kept = [
        tf.distribute.Server(cluster, job, number, protocol="grpc", config=config)
        for job, tasks in cluster.items()
        for number in range(len(tasks))
    ]
    yield cluster
    assert kept


def late(stage: Stage) -> None:
    """What was made before the switch was on."""
    import tensorflow as tf

    prepared()

    @tf.function
    def traced() -> Any:
        return tf.random.normal([4])

    race = _data.Race()
    may = {"num_parallel_calls": 4, "deterministic": False}
    read = _data.threaded(_data.numbers(4).map(race.hold, **may))
    unread = _data.threaded(_data.numbers(4).map(race.hold, **may))
    first = digest(traced()), race.order(read)
    stage.subject.enable_op_determinism(late=True)
    try:
        stage.say("function", differs=digest(traced()) != first[0])
    except tf.errors.InvalidArgumentError:  # the kernel was made again, since a seed was set
        stage.say("function", differs=False)
    stage.say("read before", order=race.order(read))
    stage.say("defined before", order=race.order(unread))
