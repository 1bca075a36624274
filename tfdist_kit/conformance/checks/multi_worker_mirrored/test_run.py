"""Strategy.run: fn in every replica, its arguments and what comes back."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from tfdist_kit.conformance.checks.multi_worker_mirrored._common import both, make
from tfdist_kit.conformance.checks.multi_worker_mirrored._values import held, here
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject
from tfdist_kit.testing.worker import Worker

pytestmark = pytest.mark.tfdist(workers=2, timeout=60)
two_replicas = pytest.mark.tfdist(local_replicas=2)


@claim("mwms.run.signature")
@both
def test_signature(subject: Subject, api: str) -> None:
    parameters = inspect.signature(make(subject, api).run).parameters
    assert list(parameters) == ["fn", "args", "kwargs", "options"]
    assert parameters["fn"].default is inspect.Parameter.empty
    assert [parameters[name].default for name in ("args", "kwargs", "options")] == [(), None, None]


@claim("mwms.run.wrong-arguments")
def test_wrong_arguments(subject: Subject) -> None:
    strategy = subject.make_strategy_v1()
    with pytest.raises(ValueError, match="positional args must be a list or tuple"):
        strategy.run(lambda x: x, args=1.0)
    with pytest.raises(TypeError, match="not callable"):
        strategy.run(7)


@claim("mwms.run.once-a-replica")
@two_replicas
@both
def test_once_a_replica(subject: Subject, api: str, tf_worker: Worker) -> None:
    import tensorflow as tf

    strategy = make(subject, api)
    seen = []

    def fn() -> None:
        context = tf.distribute.get_replica_context()
        of_strategy = context.strategy is strategy and tf.distribute.get_strategy() is strategy
        seen.append((int(context.replica_id_in_sync_group), of_strategy))

    strategy.run(fn)
    first = 2 * tf_worker.rank
    assert sorted(seen) == [(first, True), (first + 1, True)]


@claim("mwms.run.distributed-arguments")
@two_replicas
@both
def test_distributed_arguments(subject: Subject, api: str, tf_worker: Worker) -> None:
    import tensorflow as tf

    strategy = make(subject, api)
    dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.range(8).batch(4))
    values = held(strategy, lambda replica: 10 * replica)

    @tf.function
    def fn(element: Any, *, value: Any) -> Any:
        return tf.stack([element[0], tf.cast(value, tf.int64)])

    ids = (2 * tf_worker.rank, 2 * tf_worker.rank + 1)
    for element in dataset:
        got = here(strategy, strategy.run(fn, args=(element,), kwargs={"value": values}))
        parts = [int(part[0]) for part in here(strategy, element)]
        assert len(set(parts)) == 2
        assert [each.tolist() for each in got] == [
            [part, 10 * replica] for part, replica in zip(parts, ids, strict=True)
        ]


@claim("mwms.run.nested-arguments")
def test_nested_arguments(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()
    one, two = tf.constant(1.0), tf.constant(2.0)
    seen = []

    def fn(first: Any, *, second: Any) -> None:
        seen.append((first, second))

    strategy.run(fn, args=([one, (two,)],), kwargs={"second": {"b": [two], "a": one}})
    [(first, second)] = seen
    assert isinstance(first, list)
    tf.nest.assert_same_structure(first, [0, (0,)])
    tf.nest.assert_same_structure(second, {"a": 0, "b": [0]})
    assert [float(each) for each in tf.nest.flatten((first, second))] == [1.0, 2.0, 1.0, 2.0]


@claim("mwms.run.composite-arguments")
def test_composite_arguments(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()
    sparse = tf.sparse.from_dense([[0.0, 3.0]])
    ragged = tf.ragged.constant([[1.0], [2.0, 3.0]])

    def fn(one: Any, other: Any) -> Any:
        assert isinstance(one, tf.SparseTensor)
        assert isinstance(other, tf.RaggedTensor)
        return tf.sparse.reduce_sum(one), other.row_lengths()

    total, lengths = strategy.run(fn, args=(sparse, ragged))
    assert here(strategy, total) == [3.0]
    assert here(strategy, lengths)[0].tolist() == [1, 2]


@claim("mwms.run.python-arguments")
def test_python_arguments(subject: Subject) -> None:
    strategy = subject.make_strategy_v1()
    for value in ("a string", object()):
        with pytest.raises((TypeError, ValueError)):
            strategy.run(lambda x: x, args=(value,))


@claim("mwms.run.per-replica-results")
@two_replicas
def test_per_replica_results(subject: Subject, tf_worker: Worker) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()
    result = held(strategy, lambda replica: 3 * replica)
    assert isinstance(result, tf.distribute.DistributedValues)
    assert type(result).__name__ == "PerReplica"
    assert here(strategy, result) == [6 * tf_worker.rank, 6 * tf_worker.rank + 3]


@claim("mwms.run.bare-result")
def test_bare_result(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()
    value = tf.constant(3.0)
    result = strategy.run(lambda: {"value": value})
    assert type(result) is dict
    assert not isinstance(result["value"], tf.distribute.DistributedValues)
    assert result["value"] is value


@claim("mwms.run.example-tensor")
@two_replicas
def test_example_tensor(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()
    tensor_input = tf.constant(3.0)

    @tf.function
    def replica_fn(input: Any) -> Any:
        return input * 2.0

    result = strategy.run(replica_fn, args=(tensor_input,))
    assert here(strategy, result) == [6.0, 6.0]


def _of(strategy: Any, example: Callable[[Any], Any]) -> list[Any]:
    """What an example gives here; what it raises in a tf.function, without its many lines."""
    try:
        return here(strategy, example(strategy))
    except (AttributeError, ValueError) as error:
        raise AssertionError(str(error).splitlines()[-1].strip()) from error


def _distributed_values(strategy: Any) -> Any:
    """The second example."""
    import tensorflow as tf

    @tf.function
    def run() -> Any:
        def value_fn(value_context: Any) -> Any:
            return value_context.num_replicas_in_sync

        distributed_values = strategy.experimental_distribute_values_from_function(value_fn)

        def replica_fn2(input: Any) -> Any:
            return input * 2

        return strategy.run(replica_fn2, args=(distributed_values,))

    return run()


@claim("mwms.run.example-distributed-values")
def test_example_distributed_values(subject: Subject) -> None:
    strategy = subject.make_strategy_v1()
    assert _of(strategy, _distributed_values) == [4]


@claim("mwms.run.example-distributed-values-v2")
def test_example_distributed_values_v2(subject: Subject) -> None:
    strategy = subject.make_strategy()
    assert _of(strategy, _distributed_values) == [4]


def _all_reduced(strategy: Any) -> Any:
    """The third example."""
    import tensorflow as tf

    @tf.function
    def run() -> Any:
        def value_fn(value_context: Any) -> Any:
            return tf.constant(value_context.replica_id_in_sync_group)

        distributed_values = strategy.experimental_distribute_values_from_function(value_fn)

        def replica_fn(input: Any) -> Any:
            return tf.distribute.get_replica_context().all_reduce("sum", input)

        return strategy.run(replica_fn, args=(distributed_values,))

    return run()


@claim("mwms.run.example-all-reduce")
def test_example_all_reduce(subject: Subject) -> None:
    strategy = subject.make_strategy()
    assert _of(strategy, _all_reduced) == [1]


@claim("mwms.run.example-all-reduce-two-devices")
@pytest.mark.tfdist(workers=1, local_replicas=2)
def test_example_all_reduce_two_devices(subject: Subject) -> None:
    strategy = subject.make_strategy()
    assert _of(strategy, _all_reduced) == [1, 1]


def _sum_of_elements(strategy: Any, change: Callable[[Any], Any]) -> Any:
    import tensorflow as tf

    dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.range(2).batch(2))

    @tf.function
    def step(element: Any) -> Any:
        return tf.distribute.get_replica_context().all_reduce("sum", change(element))

    return strategy.run(step, args=(next(iter(dataset)),))


@claim("mwms.run.all-reduce-of-an-input")
def test_all_reduce_of_an_input(subject: Subject) -> None:
    strategy = subject.make_strategy_v1()
    assert _of(strategy, lambda strategy: _sum_of_elements(strategy, lambda x: x)) == [[1]]


@claim("mwms.run.all-reduce-of-a-copy")
def test_all_reduce_of_a_copy(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()
    assert here(strategy, _sum_of_elements(strategy, tf.identity))[0].tolist() == [1]


@claim("mwms.run.not-in-a-step")
def test_not_in_a_step(subject: Subject) -> None:
    strategy = subject.make_strategy_v1()
    with pytest.raises(RuntimeError, match="cross-replica context"):
        strategy.run(lambda: strategy.run(lambda: 1.0))


@claim("mwms.run.options")
def test_options(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()
    options = tf.distribute.RunOptions(experimental_enable_dynamic_batch_size=False)
    assert here(strategy, strategy.run(lambda: tf.constant(2.0), options=options)) == [2.0]
