"""Collectives: all workers take part in each, in one order."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tfdist_kit import LocalCluster
from tfdist_kit.conformance.checks.multi_worker_mirrored._values import held, here
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import ADAPTER, Subject
from tfdist_kit.testing import barrier, gather
from tfdist_kit.testing.worker import Worker

pytestmark = pytest.mark.tfdist(workers=2, timeout=60)

LONG = 0.3
"""How long a worker waits for sure if it waits, in seconds: a collective takes milliseconds."""
HEARTBEAT = 1.5
"""After how many seconds of silence a worker counts as lost."""


def waits_for(late: int, worker: Worker, collective: Callable[[], Any]) -> tuple[bool, Any]:
    """Have one worker be late for a collective.

    Returns:
        Whether this worker waited for it (true on that one), and what the collective gave.
    """
    barrier()
    got: list[Any] = []
    thread = threading.Thread(target=lambda: got.append(collective()), daemon=True)
    if worker.rank != late:
        thread.start()
        thread.join(LONG)
        waited = thread.is_alive()
        barrier()
    else:
        waited = True
        barrier()  # the other has waited long enough
        thread.start()
    thread.join()
    return waited, got[0] if got else None


@claim("mwms.collectives.all-must-take-part")
def test_all_must_take_part(subject: Subject, tf_worker: Worker) -> None:
    strategy = subject.make_strategy_v1()
    one = held(strategy, lambda replica: replica + 1.0)

    def collective() -> Any:
        return strategy.reduce("SUM", one, axis=None).numpy()

    assert collective() == 3.0
    for late in range(tf_worker.size):
        assert waits_for(late, tf_worker, collective) == (True, 3.0)


def _on_read(strategy: Any, aggregation: str, worker: Worker) -> Any:
    """A variable whose replicas' values are 1, 2 and so on."""
    import tensorflow as tf

    with strategy.scope():
        variable = tf.Variable(
            0.0,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation[aggregation],
            trainable=False,
        )
    strategy.run(lambda: variable.assign_add(worker.rank + 1.0))
    return variable


@claim("mwms.collectives.on-read-all-reduces")
def test_on_read(subject: Subject, tf_worker: Worker) -> None:
    strategy = subject.make_strategy_v1()
    for aggregation, value in (("SUM", 3.0), ("MEAN", 1.5)):
        variable = _on_read(strategy, aggregation, tf_worker)
        own = here(strategy, strategy.run(variable.read_value))
        assert own == [tf_worker.rank + 1.0], "within a step it is the replica's own"
        assert variable.read_value().numpy() == value


@claim("mwms.collectives.on-read-alone-blocks")
def test_on_read_alone(subject: Subject, tf_worker: Worker) -> None:
    strategy = subject.make_strategy_v1()
    variable = _on_read(strategy, "SUM", tf_worker)
    for late in range(tf_worker.size):
        waited = waits_for(late, tf_worker, lambda: variable.read_value().numpy())
        assert waited == (True, 3.0)


@claim("mwms.collectives.on-read-first-replica")
def test_on_read_of_the_first_replica(subject: Subject, tf_worker: Worker) -> None:
    strategy = subject.make_strategy_v1()
    variable = _on_read(strategy, "ONLY_FIRST_REPLICA", tf_worker)
    for reader in range(tf_worker.size):
        if tf_worker.rank == reader:
            assert variable.read_value().numpy() == reader + 1.0
        barrier()


def _sum(strategy: Any, value: float) -> float:
    return float(strategy.reduce("SUM", held(strategy, lambda replica: value), axis=None))


@claim("mwms.collectives.same-order")
def test_opposite_order(subject: Subject, tf_worker: Worker) -> None:
    strategy = subject.make_strategy_v1()
    values = (1.0, 100.0) if tf_worker.rank == 0 else (100.0, 1.0)
    assert [_sum(strategy, value) for value in (1.0, 100.0)] == [2.0, 200.0]
    assert [_sum(strategy, value) for value in values] == [101.0, 101.0]


@claim("mwms.collectives.same-number")
def test_one_left_out(subject: Subject, tf_worker: Worker) -> None:
    strategy = subject.make_strategy_v1()
    left_out = [1.0, 10.0, 100.0] if tf_worker.rank == 0 else [1.0, 100.0]
    sums = [_sum(strategy, value) for value in left_out[: 2 + tf_worker.rank]]
    assert sums == [2.0, 110.0], "10 of the first worker and 100 of the second"
    _sum(strategy, 0.0)  # brings the last ones together
    barrier()


@claim("mwms.collectives.extra-trace")
def test_extra_trace(subject: Subject, tf_worker: Worker) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()
    step = tf.function(lambda: tf.distribute.get_replica_context().all_reduce("SUM", tf.ones([])))
    assert here(strategy, strategy.run(step)) == [2.0]
    if tf_worker.rank == 1:
        assert tf.function(lambda x: x * 2.0)(tf.constant(3.0)) == 6.0
        strategy.run(tf.function(lambda: tf.constant(1.0)))
    again = tf.function(lambda: tf.distribute.get_replica_context().all_reduce("SUM", tf.ones([])))
    assert here(strategy, strategy.run(step)) == here(strategy, strategy.run(again)) == [2.0]


@claim("mwms.collectives.dispatch-on-task")
def test_dispatch_on_task(subject: Subject, tf_worker: Worker) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()
    with strategy.scope():
        variable = tf.Variable(-1.0)
    variable.assign(tf_worker.rank)
    assert gather(float(variable.numpy())) == [0.0, 1.0]


def _strategy_with_short_heartbeats(subject: Subject) -> Any:
    """A strategy by which a lost worker is missed after `HEARTBEAT` instead of 10 s."""
    from tensorflow.python.eager import context

    if subject.kind == ADAPTER:
        return subject.make_strategy_v1(heartbeat_timeout=HEARTBEAT)
    context.context().configure_coordination_service(
        "standalone",
        "/job:worker/replica:0/task:0",
        heartbeat_timeout_in_ms=int(1000 * HEARTBEAT),
    )
    return subject.make_strategy_v1()


def _reduce_while_one_is_killed(subject: Subject, victim: int) -> str:
    """In a worker: what becomes of its collective."""
    import tensorflow as tf

    strategy = _strategy_with_short_heartbeats(subject)
    assert _sum(strategy, 1.0) == 2.0
    if int(os.environ["TFDIST_RANK"]) == victim:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        return f"it gave {_sum(strategy, 1.0)}"
    except tf.errors.OpError:
        return "it raised"


@claim("mwms.collectives.lost-worker-raises")
@pytest.mark.parametrize("victim", [0, 1])
def test_lost_worker(subject: Subject, tf_cluster: LocalCluster, victim: int) -> None:
    outcome = tf_cluster.run_each(_reduce_while_one_is_killed, subject, victim, timeout=20)
    assert outcome.ranks[victim].kind == "died"
    survivor = outcome.ranks[1 - victim]
    assert (survivor.kind, survivor.value) == ("returned", "it raised")


def _go_on_without_the_other(subject: Subject) -> float:
    """In a worker: compute for longer than a lost worker takes to be missed."""
    import tensorflow as tf
    from tensorflow.python.eager import context

    strategy = _strategy_with_short_heartbeats(subject)
    assert _sum(strategy, 1.0) == 2.0
    if os.environ["TFDIST_RANK"] == "1":
        context._reset_context()  # as at the end of a program; it says goodbye to the others
        os._exit(0)
    begin, result = time.monotonic(), 0.0
    while time.monotonic() - begin < HEARTBEAT + 0.5:
        [result] = here(strategy, strategy.run(lambda: tf.constant(1.0) + 2.0))
    return float(result)


@claim("mwms.collectives.left-worker-is-not-missed")
def test_left_worker(subject: Subject, tf_cluster: LocalCluster) -> None:
    outcome = tf_cluster.run_each(_go_on_without_the_other, subject, timeout=20)
    stayed, left = outcome.ranks
    assert left.kind == "died"
    assert (stayed.kind, stayed.value) == ("returned", 3.0)
