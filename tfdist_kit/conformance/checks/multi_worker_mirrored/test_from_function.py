"""What distribute_datasets_from_function makes of a function that makes datasets."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from tfdist_kit.conformance.checks.multi_worker_mirrored._common import both, make
from tfdist_kit.conformance.checks.multi_worker_mirrored._rows import (
    flat,
    from_all,
    lines,
    parts,
    policy,
    signature,
    steps,
    times,
    write_lines,
)
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject
from tfdist_kit.testing import Worker

pytestmark = pytest.mark.tfdist(workers=2, timeout=60)


@claim("mwms.from-function.signature")
@pytest.mark.tfdist(workers=1)
@both
def test_takes_a_function_and_options(subject: Subject, api: str) -> None:
    method = make(subject, api).distribute_datasets_from_function
    assert signature(method) == [("dataset_fn", inspect.Parameter.empty), ("options", None)]


@claim("mwms.from-function.input-context")
@both
def test_the_function_is_given_an_input_context(
    subject: Subject, tf_worker: Worker, api: str
) -> None:
    import tensorflow as tf

    context = _context(make(subject, api))
    assert isinstance(context, tf.distribute.InputContext)
    assert context.num_input_pipelines == 2
    assert context.input_pipeline_id == tf_worker.rank
    assert context.num_replicas_in_sync == 2


@claim("mwms.from-function.input-context")
@pytest.mark.tfdist(local_replicas=2)
def test_the_input_context_counts_replicas_and_not_workers(
    subject: Subject, tf_worker: Worker
) -> None:
    context = _context(subject.make_strategy())
    assert context.num_input_pipelines == 2
    assert context.input_pipeline_id == tf_worker.rank
    assert context.num_replicas_in_sync == 4


@claim("mwms.from-function.per-replica-batch-size")
@pytest.mark.tfdist(local_replicas=2)
def test_the_input_context_divides_by_all_replicas_in_sync(subject: Subject) -> None:
    context = _context(subject.make_strategy())
    assert context.get_per_replica_batch_size(8) == 2


@claim("mwms.from-function.per-replica-batch-size")
@both
def test_the_input_context_divides_the_global_batch_size(subject: Subject, api: str) -> None:
    context = _context(make(subject, api))
    assert context.get_per_replica_batch_size(8) == 4
    assert context.get_per_replica_batch_size(2) == 1


@claim("mwms.from-function.indivisible-batch-size")
def test_the_input_context_refuses_a_size_that_it_cannot_divide(subject: Subject) -> None:
    context = _context(subject.make_strategy())
    with pytest.raises(ValueError, match="not divisible"):
        context.get_per_replica_batch_size(7)


def _context(strategy: Any) -> Any:
    """What a dataset_fn is given."""
    import tensorflow as tf

    given: list[Any] = []

    def dataset_fn(*context: Any) -> Any:
        given.extend(context)
        return tf.data.Dataset.range(4).batch(2)

    strategy.distribute_datasets_from_function(dataset_fn)
    return given[0]


@claim("mwms.from-function.must-return-a-dataset")
@pytest.mark.tfdist(workers=1)
def test_refuses_functions_of_another_form(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    with pytest.raises(TypeError):
        strategy.distribute_datasets_from_function(lambda: tf.data.Dataset.range(4).batch(2))
    with pytest.raises((AttributeError, TypeError, ValueError)):
        strategy.distribute_datasets_from_function(lambda context: [0, 1, 2, 3])


@claim("mwms.from-function.neither-batches-nor-shards")
@both
def test_the_batches_come_as_they_are(subject: Subject, api: str) -> None:
    import tensorflow as tf

    strategy = make(subject, api)
    distributed = strategy.distribute_datasets_from_function(
        lambda context: tf.data.Dataset.range(6).batch(3)
    )
    assert steps(strategy, distributed) == [[[0, 1, 2]], [[3, 4, 5]]]


@claim("mwms.from-function.called-on-the-cpu")
def test_the_function_is_called_once_on_the_cpu_of_each_worker(
    subject: Subject, tf_worker: Worker
) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    devices = []

    def dataset_fn(context: Any) -> Any:
        devices.append(tf.zeros([]).device)
        return tf.data.Dataset.range(2).batch(1)

    distributed = strategy.distribute_datasets_from_function(dataset_fn)
    assert steps(strategy, distributed) == steps(strategy, distributed)
    assert devices == [f"/job:worker/replica:0/task:{tf_worker.rank}/device:CPU:0"]


@claim("mwms.from-function.batch-for-each-replica")
@pytest.mark.tfdist(local_replicas=2)
@both
def test_each_local_replica_takes_a_batch_in_a_step(subject: Subject, api: str) -> None:
    import tensorflow as tf

    strategy = make(subject, api)
    distributed = strategy.distribute_datasets_from_function(
        lambda context: tf.data.Dataset.range(8).batch(2)
    )
    assert steps(strategy, distributed) == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]


@claim("mwms.from-function.own-sharding")
def test_a_function_can_shard_a_single_file(
    subject: Subject, tf_worker: Worker, tmp_path: Path
) -> None:
    strategy = subject.make_strategy()
    files = write_lines(tmp_path, tf_worker.rank, 8)

    def dataset_fn(context: Any) -> Any:
        mine = lines(files).shard(context.num_input_pipelines, context.input_pipeline_id)
        return mine.batch(context.get_per_replica_batch_size(4))

    mine = flat(steps(strategy, strategy.distribute_datasets_from_function(dataset_fn)))
    assert len(mine) == 4
    assert times(strategy, mine, 8) == [1] * 8


@claim("mwms.from-function.own-seeds")
def test_endless_copies_with_seeds_of_their_own_differ(subject: Subject, tf_worker: Worker) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()

    def dataset_fn(context: Any) -> Any:
        seed = 1 + context.input_pipeline_id
        return tf.data.Dataset.range(64).shuffle(64, seed=seed).repeat().batch(16)

    iterator = iter(strategy.distribute_datasets_from_function(dataset_fn))
    first, second = from_all(strategy, tf_worker, parts(strategy, next(iterator))[0])
    assert first != second


@claim("mwms.from-function.element-spec")
def test_element_spec_can_be_an_input_signature(subject: Subject, tf_worker: Worker) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    distributed = strategy.distribute_datasets_from_function(
        lambda context: tf.data.Dataset.range(5).batch(2)
    )
    traces = []

    @tf.function(input_signature=[distributed.element_spec])
    def doubled(value: Any) -> Any:
        traces.append(value)
        return strategy.run(lambda x: x * 2, args=(value,))

    seen = [parts(strategy, doubled(value)) for value in distributed]
    assert seen == [[[0, 2]], [[4, 6]], [[8]]]
    assert len(traces) == 1


@claim("mwms.from-function.uneven-workers")
def test_a_worker_that_has_ended_gets_empty_batches(subject: Subject, tf_worker: Worker) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    distributed = strategy.distribute_datasets_from_function(
        lambda context: tf.data.Dataset.range(2 if context.input_pipeline_id else 6).batch(2)
    )
    both = [[[0, 1]], [[2, 3]], [[4, 5]]], [[[0, 1]], [[]], [[]]]
    assert steps(strategy, distributed) == both[tf_worker.rank]


@claim("mwms.from-function.per-replica-mode")
def test_refuses_a_dataset_for_each_replica(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    options = tf.distribute.InputOptions(
        experimental_fetch_to_device=False,
        experimental_replication_mode=tf.distribute.InputReplicationMode.PER_REPLICA,
    )
    with pytest.raises(NotImplementedError, match="PER_REPLICA"):
        strategy.distribute_datasets_from_function(
            lambda context: tf.data.Dataset.range(4).batch(2), options
        )


@claim("mwms.from-function.index-restores-the-order")
def test_an_index_tells_which_result_is_of_which_input(subject: Subject, tf_worker: Worker) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    inputs = [5, 3, 8, 1, 9, 2, 7, 4]
    dataset = tf.data.Dataset.from_tensor_slices((list(range(8)), inputs)).batch(4)
    mine: list[int] = []
    for index, value in strategy.experimental_distribute_dataset(dataset):
        squares = strategy.run(lambda x: x * x, args=(value,))
        mine += flat([parts(strategy, index), parts(strategy, squares)])
    found: dict[int, int] = {}
    for numbers in from_all(strategy, tf_worker, mine):  # of a step, 2 indices and then 2 squares
        for first in (0, 4):
            found |= zip(numbers[first : first + 2], numbers[first + 2 : first + 4], strict=True)
    assert [found[index] for index in range(8)] == [value * value for value in inputs]


@claim("mwms.from-function.state-is-ignored")
def test_what_a_function_keeps_as_state_is_ignored(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    state = tf.Variable(10, dtype=tf.int64)
    dataset = tf.data.Dataset.range(4).map(lambda x: (x + state, _random())).batch(2)
    dataset = dataset.with_options(policy("OFF"))
    for distributed in (
        strategy.experimental_distribute_dataset(dataset),
        strategy.distribute_datasets_from_function(lambda context: dataset),
    ):
        state.assign_add(10)
        numbers = [number for number, _ in distributed]
        drawn = [number for _, number in distributed]
        local = [number for _, number in dataset.unbatch().as_numpy_iterator()]
        used = {
            "the variable": flat(steps(strategy, numbers)) == [x + int(state) for x in range(4)],
            "the random generator": flat(steps(strategy, drawn)) == local,
        }
        assert not any(used.values()), f"not ignored: {', '.join(filter(used.get, used))}"


def _random() -> Any:
    import tensorflow as tf

    return tf.random.uniform([], maxval=2**30, dtype=tf.int64, seed=3)
