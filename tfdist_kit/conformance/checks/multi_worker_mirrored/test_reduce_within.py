"""What else reduces: all_reduce within a step, and the strategy's extended methods."""

from __future__ import annotations

from typing import Any

import pytest

from tfdist_kit.conformance.checks.multi_worker_mirrored._values import held, here
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject
from tfdist_kit.testing.worker import Worker

pytestmark = pytest.mark.tfdist(workers=2, timeout=60)


@claim("mwms.reduce.all-reduce-of-a-structure")
def test_structure(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()

    def step() -> Any:
        context = tf.distribute.get_replica_context()
        one = 1.0 + tf.cast(context.replica_id_in_sync_group, tf.float32)
        return context.all_reduce("SUM", {"a": one, "b": [2.0 * one, (one * [3.0, 4.0],)]})

    for each in (step, tf.function(step)):
        total = strategy.run(each)
        assert [one.numpy().tolist() for one in tf.nest.flatten(total)] == [3.0, 6.0, [9.0, 12.0]]
        tf.nest.assert_same_structure(total, {"a": 0, "b": [0, (0,)]})


@claim("mwms.reduce.all-reduce-stays-on-the-device")
@pytest.mark.tfdist(workers=1)
def test_device(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()

    @tf.function
    def step() -> Any:
        context = tf.distribute.get_replica_context()
        return context.all_reduce("SUM", tf.random.normal([]))

    for total in strategy.experimental_local_results(strategy.run(step)):
        assert "/device:GPU:" in total.device


@claim("mwms.reduce.reduce-to")
@pytest.mark.tfdist(local_replicas=2)
def test_reduce_to(subject: Subject, tf_worker: Worker) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()
    own = f"/job:worker/replica:0/task:{tf_worker.rank}/device:CPU:"
    values = held(strategy, lambda replica: 1.0 + replica)
    with strategy.scope():
        variable = tf.Variable(0.0)
    to_variable = strategy.extended.reduce_to("SUM", values, destinations=variable)
    to_device = strategy.extended.reduce_to("SUM", values, destinations=f"{own}1")
    assert here(strategy, to_variable) == [10.0, 10.0]
    devices = [each.device for each in strategy.experimental_local_results(to_variable)]
    assert devices == [f"{own}0", f"{own}1"], "a copy for each device of the variable"
    [total] = strategy.experimental_local_results(to_device)
    assert (total.numpy(), total.device) == (10.0, f"{own}1")


@claim("mwms.reduce.batch-reduce-to")
@pytest.mark.tfdist(local_replicas=2)
def test_batch_reduce_to(subject: Subject, tf_worker: Worker) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()
    own = f"/job:worker/replica:0/task:{tf_worker.rank}/device:CPU:"
    first = held(strategy, lambda replica: 1.0 + replica)
    second = held(strategy, lambda replica: [2.0, 4.0 * replica])
    with strategy.scope():
        variable = tf.Variable(0.0)
    pairs = [(first, variable), (second, f"{own}1")]
    to_variable, to_device = strategy.extended.batch_reduce_to("MEAN", pairs)
    assert here(strategy, to_variable) == [2.5, 2.5]
    assert [each.tolist() for each in here(strategy, to_device)] == [[2.0, 6.0]]
    devices = [each.device for each in strategy.experimental_local_results(to_variable)]
    assert devices == [f"{own}0", f"{own}1"]
    assert strategy.experimental_local_results(to_device)[0].device == f"{own}1"


@claim("mwms.reduce.reduce-to-not-in-a-step")
def test_reduce_to_not_in_a_step(subject: Subject) -> None:
    strategy = subject.make_strategy_v1()
    with pytest.raises(RuntimeError, match="cross-replica context"):
        strategy.run(lambda: strategy.extended.reduce_to("SUM", 1.0, "/device:CPU:0"))
