"""scope(): what entering it does, and which variables are distributed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tfdist_kit.conformance.checks.multi_worker_mirrored._common import (
    both,
    copies,
    is_mirrored,
    make,
)
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject
from tfdist_kit.testing import Worker, gather

pytestmark = pytest.mark.tfdist(workers=2, timeout=60)
alone = pytest.mark.tfdist(workers=1)
two_replicas = pytest.mark.tfdist(local_replicas=2)


@both
@claim("mwms.scope.variables-are-mirrored")
def test_variables_are_mirrored(subject: Subject, tf_worker: Worker, api: str) -> None:
    import tensorflow as tf

    strategy = make(subject, api)
    with strategy.scope():
        variable = tf.Variable(10.0 + tf_worker.rank)
    assert is_mirrored(variable)
    assert gather(copies(strategy, variable)) == [[10.0], [10.0]]


@claim("mwms.scope.variables-outside-are-not")
def test_variables_outside_are_not(subject: Subject, tf_worker: Worker) -> None:
    import tensorflow as tf

    subject.make_strategy()
    variable = tf.Variable(10.0 + tf_worker.rank)
    assert not is_mirrored(variable)
    assert gather(float(variable.numpy())) == [10.0, 11.0]


@pytest.mark.tfdist(workers=1, local_replicas=2)
@claim("mwms.scope.example")
def test_example() -> None:
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        mirrored = tf.Variable(1.0)
    names = [one.name for one in strategy.experimental_local_results(mirrored)]
    assert names == ["Variable:0", "Variable/replica_1:0"]
    regular = tf.Variable(1.0)
    assert repr(mirrored).startswith("MirroredVariable:{\n  0: <tf.Variable 'Variable:0'")
    assert repr(regular).startswith("<tf.Variable 'Variable:0' shape=() dtype=float32")


@claim("mwms.scope.creation-is-intercepted")
def test_creation_is_intercepted(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    with strategy.scope():
        variable = tf.compat.v1.get_variable("got", shape=[])
    assert is_mirrored(variable)
    first, second = gather(copies(strategy, variable))
    assert first == second, "it is initialised at random, but not the same on both workers"


@alone
@claim("mwms.scope.current-strategy")
def test_current_strategy(subject: Subject) -> None:
    import tensorflow as tf

    default = tf.distribute.get_strategy()
    strategy = subject.make_strategy_v1()
    with strategy.scope() as entered:
        assert tf.distribute.get_strategy() is strategy is entered
        assert tf.distribute.has_strategy()
    assert tf.distribute.get_strategy() is default
    assert default is not strategy
    assert not tf.distribute.has_strategy()


@alone
@claim("mwms.scope.cross-replica-context")
def test_cross_replica_context(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()
    assert not tf.distribute.in_cross_replica_context()
    with strategy.scope():
        assert tf.distribute.in_cross_replica_context()
        assert tf.distribute.get_replica_context() is None
    assert tf.distribute.get_replica_context() is not None


@alone
@claim("mwms.scope.nested")
def test_nested(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    with strategy.scope():
        with strategy.scope():
            assert is_mirrored(tf.Variable(1.0))
        assert tf.distribute.get_strategy() is strategy
        assert is_mirrored(tf.Variable(1.0))
    assert not tf.distribute.has_strategy()


@alone
@claim("mwms.scope.of-another-strategy")
def test_of_another_strategy(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    other = tf.distribute.OneDeviceStrategy("CPU:0")
    with (
        strategy.scope(),
        pytest.raises(RuntimeError, match=r"Mixing different tf.distribute.Strategy objects"),
    ):
        other.scope().__enter__()


@claim("mwms.scope.default-device")
def test_default_device(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    with tf.Graph().as_default(), strategy.scope():
        device = tf.no_op().device
    assert device in ("/CPU:0", "/device:CPU:0")


@two_replicas
@claim("mwms.scope.does-not-distribute")
def test_does_not_distribute(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    called: list[Any] = []

    def fn() -> Any:
        called.append(None)
        return tf.add(1.0, 1.0)

    with strategy.scope():
        result = fn()
    assert len(called) == 1
    assert isinstance(result, tf.Tensor)
    called.clear()
    results = strategy.experimental_local_results(strategy.run(fn))
    assert len(called) == len(results) == 2


@claim("mwms.scope.variables-made-in-run")
def test_variables_made_in_run(subject: Subject, tf_worker: Worker) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    made: list[Any] = []

    def step() -> Any:
        if not made:
            made.append(tf.Variable(5.0 + tf_worker.rank))
        return made[0].read_value()

    strategy.run(step)
    strategy.run(step)
    [variable] = made
    assert is_mirrored(variable)
    assert gather(copies(strategy, variable)) == [[5.0], [5.0]]


@claim("mwms.scope.variables-made-in-a-function")
def test_variables_made_in_a_function(subject: Subject, tf_worker: Worker) -> None:
    import tensorflow as tf

    subject.make_strategy()
    made: list[Any] = []

    def step() -> Any:
        if not made:
            made.append(tf.Variable(5.0 + tf_worker.rank))
        return made[0].read_value()

    assert gather(float(tf.function(step)())) == [5.0, 6.0]
    assert not is_mirrored(made[0])


@claim("mwms.scope.restoring-makes-variables")
def test_restoring(subject: Subject, tf_worker: Worker, tmp_path: Path) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    path = tf.train.Checkpoint(v=tf.Variable(7.0)).write(f"{tmp_path}/{tf_worker.rank}")
    inside, outside = tf.train.Checkpoint(), tf.train.Checkpoint()
    with strategy.scope():
        inside.restore(path)
        inside.v = tf.Variable(0.0)
    outside.restore(path)
    outside.v = tf.Variable(0.0)
    assert is_mirrored(inside.v)
    assert not is_mirrored(outside.v)
    assert copies(strategy, inside.v) == [7.0]
    assert float(outside.v.numpy()) == 7.0


@two_replicas
@claim("mwms.scope.variables-remember-their-strategy")
def test_variables_remember(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    with strategy.scope():
        variable = tf.Variable(1.0)
    assert float(variable + 1.0) == 2.0
    variable.assign(3.0)
    assert copies(strategy, variable) == [3.0, 3.0]
    variable.assign_add(2.0)
    assert copies(strategy, variable) == [5.0, 5.0]
    assert float(variable.numpy()) == 5.0


@both
@claim("mwms.scope.entered-by-run-and-reduce")
def test_entered_by_run_and_reduce(subject: Subject, tf_worker: Worker, api: str) -> None:
    import tensorflow as tf

    strategy = make(subject, api)

    def step() -> Any:
        assert tf.distribute.get_strategy() is strategy
        return tf.identity(tf_worker.rank + 1.0)

    assert not tf.distribute.has_strategy()
    result = strategy.run(step)
    assert float(strategy.reduce("sum", result, axis=None)) == 3.0
    assert not tf.distribute.has_strategy()


@claim("mwms.scope.aggregated-assignment")
def test_aggregated(subject: Subject, tf_worker: Worker) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    for name, expected in (("SUM", 3.0), ("MEAN", 1.5)):
        with strategy.scope():
            variable = tf.Variable(10.0, aggregation=tf.VariableAggregation[name])
        assert_assigned(strategy, variable, tf_worker.rank + 1.0, expected)


def assert_assigned(strategy: Any, variable: Any, value: float, expected: float) -> None:
    import tensorflow as tf

    strategy.run(lambda: variable.assign(tf.identity(value)))
    assert gather(copies(strategy, variable)) == [[expected]] * 2
    strategy.run(lambda: variable.assign_add(tf.identity(value)))
    assert gather(copies(strategy, variable)) == [[expected * 2]] * 2


@two_replicas
@claim("mwms.scope.first-replica-assignment")
def test_first_replica(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    with strategy.scope():
        first = tf.VariableAggregation.ONLY_FIRST_REPLICA
        variable = tf.Variable(10.0, aggregation=first)

    def step() -> None:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        variable.assign(float(replica))

    strategy.run(step)
    assert gather(copies(strategy, variable)) == [[0.0, 0.0], [2.0, 2.0]]
