"""What make_dataset_iterator and make_input_fn_iterator give, eagerly and in graph mode."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from tfdist_kit.conformance.checks.multi_worker_mirrored._common import both, make
from tfdist_kit.conformance.checks.multi_worker_mirrored._graph import in_a_session
from tfdist_kit.conformance.checks.multi_worker_mirrored._rows import parts, signature, steps
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject
from tfdist_kit.testing import Worker

pytestmark = pytest.mark.tfdist(workers=2, timeout=60)


@claim("mwms.dataset-iterator.signature")
@pytest.mark.tfdist(workers=1)
@both
def test_takes_a_dataset(subject: Subject, api: str) -> None:
    method = make(subject, api).make_dataset_iterator
    assert signature(method) == [("dataset", inspect.Parameter.empty)]


@claim("mwms.dataset-iterator.spreads-evenly")
@both
def test_each_replica_gets_its_own_equal_part(
    subject: Subject, tf_worker: Worker, api: str
) -> None:
    import tensorflow as tf

    strategy = make(subject, api)
    iterator = strategy.make_dataset_iterator(tf.data.Dataset.range(8).batch(4))
    seen = steps(strategy, iterator)
    assert seen == ([[[0, 1]], [[4, 5]]] if tf_worker.rank == 0 else [[[2, 3]], [[6, 7]]])


@claim("mwms.dataset-iterator.cannot-be-split")
def test_a_batch_that_cannot_be_split_evenly_raises(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()
    iterator = strategy.make_dataset_iterator(tf.data.Dataset.range(2).batch(1))
    with pytest.raises((ValueError, tf.errors.OpError)):
        iterator.get_next()


@claim("mwms.dataset-iterator.not-batched")
def test_a_dataset_that_is_not_batched_raises(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()
    with pytest.raises((IndexError, ValueError, tf.errors.OpError)):
        strategy.make_dataset_iterator(tf.data.Dataset.range(4)).get_next()


@claim("mwms.dataset-iterator.graph")
def test_in_graph_mode_each_replica_gets_its_own_equal_part(
    subject: Subject, tf_worker: Worker
) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()
    with in_a_session(strategy) as session:
        iterator = strategy.make_dataset_iterator(tf.data.Dataset.range(8).batch(4))
        value = strategy.experimental_local_results(iterator.get_next())
        session.run(iterator.initializer)
        seen = [[each.tolist() for each in session.run(value)] for _ in range(2)]
        assert seen == ([[[0, 1]], [[4, 5]]] if tf_worker.rank == 0 else [[[2, 3]], [[6, 7]]])
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(value)


@claim("mwms.dataset-iterator.partial-last-batch")
def test_in_graph_mode_the_last_smaller_batch_is_split_too(
    subject: Subject, tf_worker: Worker
) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()
    with in_a_session(strategy) as session:
        iterator = strategy.make_dataset_iterator(tf.data.Dataset.range(5).batch(4))
        [value] = strategy.experimental_local_results(iterator.get_next())
        session.run(iterator.initializer)
        seen = [session.run(value).tolist() for _ in range(2)]
        assert seen == ([[0, 1], [4]] if tf_worker.rank == 0 else [[2, 3], []])
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(value)


@claim("mwms.input-fn-iterator.signature")
@pytest.mark.tfdist(workers=1)
@both
def test_takes_a_function_and_a_replication_mode(subject: Subject, api: str) -> None:
    import tensorflow as tf

    method = make(subject, api).make_input_fn_iterator
    per_worker = tf.distribute.InputReplicationMode.PER_WORKER
    assert signature(method) == [
        ("input_fn", inspect.Parameter.empty),
        ("replication_mode", per_worker),
    ]


@claim("mwms.input-fn-iterator.only-per-worker")
@pytest.mark.tfdist(workers=1)
@both
def test_refuses_another_replication_mode(subject: Subject, api: str) -> None:
    import tensorflow as tf

    strategy = make(subject, api)
    per_replica = tf.distribute.InputReplicationMode.PER_REPLICA
    with pytest.raises(ValueError, match="not supported"):
        strategy.make_input_fn_iterator(lambda context: tf.data.Dataset.range(2), per_replica)


def _input_fn(input_context: Any) -> Any:
    """That of the example."""
    import tensorflow as tf

    global_batch_size = 4
    batch_size = input_context.get_per_replica_batch_size(global_batch_size)
    d = tf.data.Dataset.from_tensors([[1.0]]).repeat().batch(batch_size)
    return d.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)


def _replica_fn(value: Any) -> Any:
    import tensorflow as tf

    return tf.reduce_sum(value)


@claim("mwms.input-fn-iterator.example")
@both
def test_the_example(subject: Subject, api: str) -> None:
    import tensorflow as tf

    given = []

    def input_fn(input_context: Any) -> Any:
        given.append(input_context)
        return _input_fn(input_context)

    strategy = make(subject, api)
    with strategy.scope():
        iterator = strategy.make_input_fn_iterator(input_fn)
        replica_results = strategy.experimental_run(_replica_fn, iterator)
    assert [type(each) for each in given] == [tf.distribute.InputContext]
    assert parts(strategy, replica_results) == [2.0]


@claim("mwms.input-fn-iterator.example-in-graph-mode")
def test_the_example_in_graph_mode(subject: Subject) -> None:
    strategy = subject.make_strategy_v1()
    with in_a_session(strategy) as session:
        with strategy.scope():
            iterator = strategy.make_input_fn_iterator(_input_fn)
            replica_results = strategy.experimental_run(_replica_fn, iterator)
        [result] = strategy.experimental_local_results(replica_results)
        session.run(iterator.initializer)
        assert session.run(result).tolist() == 2.0


@claim("mwms.input-fn-iterator.as-it-is")
def test_the_batches_come_as_they_are(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()
    iterator = strategy.make_input_fn_iterator(lambda context: tf.data.Dataset.range(6).batch(3))
    assert steps(strategy, iterator) == [[[0, 1, 2]], [[3, 4, 5]]]


@claim("mwms.input-fn-iterator.not-initialized")
@pytest.mark.tfdist(workers=1)
def test_in_graph_mode_the_iterator_has_to_be_initialized(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()
    with in_a_session(strategy) as session:
        iterator = strategy.make_input_fn_iterator(_input_fn)
        [value] = strategy.experimental_local_results(iterator.get_next())
        with pytest.raises(tf.errors.FailedPreconditionError):
            session.run(value)
        session.run(iterator.initializer)
        assert session.run(value).size == 4


@claim("mwms.input-fn-iterator.callable")
def test_the_function_may_return_a_function(subject: Subject, tf_worker: Worker) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()
    count = iter(range(10))
    iterator = strategy.make_input_fn_iterator(lambda context: lambda: tf.constant(next(count)))
    results = [strategy.experimental_run(lambda x: x + 1, iterator) for _ in range(2)]
    assert [parts(strategy, each) for each in results] == [[1], [2]]
