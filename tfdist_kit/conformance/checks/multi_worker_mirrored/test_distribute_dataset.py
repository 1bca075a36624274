"""What experimental_distribute_dataset makes of a dataset: how it is iterated and described."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from tfdist_kit.conformance.checks.multi_worker_mirrored._common import both, make
from tfdist_kit.conformance.checks.multi_worker_mirrored._rows import (
    flat,
    lines,
    parts,
    signature,
    steps,
    write_lines,
)
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject
from tfdist_kit.testing import Worker

pytestmark = pytest.mark.tfdist(workers=2, timeout=60)


@claim("mwms.distribute-dataset.signature")
@pytest.mark.tfdist(workers=1)
@both
def test_takes_a_dataset_and_options(subject: Subject, api: str) -> None:
    method = make(subject, api).experimental_distribute_dataset
    assert signature(method) == [("dataset", inspect.Parameter.empty), ("options", None)]


@claim("mwms.distribute-dataset.is-iterated")
@both
def test_a_for_loop_runs_through_it_again_and_again(
    subject: Subject, tf_worker: Worker, api: str
) -> None:
    import tensorflow as tf

    strategy = make(subject, api)
    dataset = tf.data.Dataset.range(4).batch(2)
    distributed = strategy.experimental_distribute_dataset(dataset)
    assert isinstance(distributed, tf.distribute.DistributedDataset)
    rank = tf_worker.rank
    assert steps(strategy, distributed) == [[[rank]], [[2 + rank]]]
    assert steps(strategy, distributed) == [[[rank]], [[2 + rank]]], "not from the start again"


@claim("mwms.distribute-dataset.no-transformations")
@pytest.mark.tfdist(workers=1)
def test_has_no_transformations(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    dataset = tf.data.Dataset.range(4).batch(2)
    names = ("map", "batch", "filter", "repeat", "take", "prefetch", "shuffle", "shard")
    assert all(hasattr(dataset, name) for name in names)
    distributed = strategy.experimental_distribute_dataset(dataset)
    assert [name for name in names if hasattr(distributed, name)] == []


@claim("mwms.distribute-dataset.element-spec")
def test_element_spec_describes_what_comes(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    dataset = tf.data.Dataset.range(4).map(lambda x: tf.fill([3], x)).batch(2)
    distributed = strategy.experimental_distribute_dataset(dataset)
    [spec] = tf.nest.flatten(distributed.element_spec, expand_composites=True)
    assert spec.dtype == tf.int64
    assert spec.shape.as_list() == [None, 3]
    assert distributed.element_spec.is_compatible_with(next(iter(distributed)))


@claim("mwms.distribute-dataset.example")
@both
def test_the_example(subject: Subject, tf_worker: Worker, api: str) -> None:
    import tensorflow as tf

    global_batch_size = 2
    strategy = make(subject, api)
    dataset = tf.data.Dataset.range(4).batch(global_batch_size)
    dist_dataset = strategy.experimental_distribute_dataset(dataset)

    @tf.function
    def replica_fn(input):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        return input * 2

    result = []
    for x in dist_dataset:
        result.append(strategy.run(replica_fn, args=(x,)))
    mine = [parts(strategy, each) for each in result]
    assert mine == ([[[0]], [[4]]] if tf_worker.rank == 0 else [[[2]], [[6]]])


@claim("mwms.distribute-dataset.example-two-devices")
@pytest.mark.tfdist(workers=1, local_replicas=2)
def test_the_example_with_two_devices(subject: Subject) -> None:
    import tensorflow as tf

    subject.make_strategy()  # else this process could never make one: TensorFlow is in use now
    global_batch_size = 2
    strategy = tf.distribute.MirroredStrategy(devices=["CPU:0", "CPU:1"])
    dataset = tf.data.Dataset.range(4).batch(global_batch_size)
    dist_dataset = strategy.experimental_distribute_dataset(dataset)

    @tf.function
    def replica_fn(input):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        return input * 2

    result = []
    for x in dist_dataset:
        result.append(strategy.run(replica_fn, args=(x,)))
    assert [parts(strategy, each) for each in result] == [[[0], [2]], [[4], [6]]]


@claim("mwms.distribute-dataset.yields-distributed-values")
@pytest.mark.tfdist(local_replicas=[1, 2])
def test_a_step_yields_a_value_for_each_local_replica(subject: Subject, tf_worker: Worker) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    dataset = tf.data.Dataset.range(8).batch(4)
    for value in strategy.experimental_distribute_dataset(dataset):
        assert isinstance(value, tf.distribute.DistributedValues)
        assert len(strategy.experimental_local_results(value)) == tf_worker.local_replicas


@claim("mwms.distribute-dataset.prefetches")
def test_a_prefetch_is_added(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    dataset = tf.data.Dataset.range(4).batch(2)
    assert _prefetches(dataset) == []
    assert len(_prefetches(_inner(strategy.experimental_distribute_dataset(dataset)))) == 1


@claim("mwms.distribute-dataset.prefetch-size")
@pytest.mark.tfdist(local_replicas=2)
def test_the_prefetch_holds_a_batch_for_each_replica_in_sync(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    dataset = tf.data.Dataset.range(8).batch(4)
    [size] = _prefetches(_inner(strategy.experimental_distribute_dataset(dataset)))
    replicas: int = strategy.num_replicas_in_sync
    assert size == replicas


def _inner(distributed: object) -> object:
    """This worker's own dataset; there is no public way to see what has been added to it."""
    [dataset] = distributed._cloned_datasets  # type: ignore[attr-defined]
    return dataset


def _prefetches(dataset: object) -> list[int]:
    """The sizes of all prefetches in a chain of datasets, the last one first."""
    found = []
    while dataset is not None:
        if "Prefetch" in type(dataset).__name__:
            found.append(int(dataset._buffer_size))  # type: ignore[attr-defined]
        dataset = getattr(dataset, "_input_dataset", None)
    return found


@claim("mwms.distribute-dataset.not-a-dataset")
@pytest.mark.tfdist(workers=1)
@both
def test_refuses_what_is_no_dataset(subject: Subject, api: str) -> None:
    import numpy as np

    strategy = make(subject, api)
    for wrong in (np.arange(4), [0, 1, 2, 3], lambda: None):
        with pytest.raises((AttributeError, TypeError, ValueError)):
            strategy.experimental_distribute_dataset(wrong)


@claim("mwms.distribute-dataset.nested-elements")
def test_parts_of_dictionaries_and_ragged_tensors_are_split_alike(
    subject: Subject, tf_worker: Worker
) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    rows = tf.ragged.constant([[0], [1, 1], [], [3, 3, 3]])
    dataset = tf.data.Dataset.from_tensor_slices({"x": tf.range(4), "y": rows}).batch(4)
    [value] = strategy.experimental_distribute_dataset(dataset)
    [x] = strategy.experimental_local_results(value["x"])
    [y] = strategy.experimental_local_results(value["y"])
    assert isinstance(y, tf.RaggedTensor)
    first = tf_worker.rank == 0
    assert x.numpy().tolist() == ([0, 1] if first else [2, 3])
    assert y.to_list() == ([[0], [1, 1]] if first else [[], [3, 3, 3]])


@claim("mwms.distribute-dataset.ends-together")
@both
def test_the_iterators_of_all_workers_end_in_one_step(
    subject: Subject, tf_worker: Worker, tmp_path: Path, api: str
) -> None:
    strategy = make(subject, api)
    files = write_lines(tmp_path, tf_worker.rank, 2, 1)  # a file and its lines for each worker
    distributed = strategy.experimental_distribute_dataset(lines(files).batch(2))
    iterator = iter(distributed)
    seen = [parts(strategy, next(iterator)) for _ in range(2)]
    assert flat(seen) == ([0, 1] if tf_worker.rank == 0 else [2])
    with pytest.raises(StopIteration):
        next(iterator)
    iterator = iter(distributed)
    has_value = [bool(iterator.get_next_as_optional().has_value()) for _ in range(3)]
    assert has_value == [True, True, False]


@claim("mwms.distribute-dataset.in-a-function")
@both
def test_a_function_can_run_through_it(subject: Subject, tf_worker: Worker, api: str) -> None:
    import tensorflow as tf

    strategy = make(subject, api)
    distributed = strategy.experimental_distribute_dataset(tf.data.Dataset.range(6).batch(2))

    @tf.function
    def total():  # type: ignore[no-untyped-def] # noqa: ANN202
        found = tf.constant(0, tf.int64)
        for value in distributed:
            found += tf.reduce_sum(strategy.experimental_local_results(value)[0])
        return found

    assert int(total()) == (0 + 2 + 4 if tf_worker.rank == 0 else 1 + 3 + 5)
