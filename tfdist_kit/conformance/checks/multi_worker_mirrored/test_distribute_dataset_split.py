"""How experimental_distribute_dataset splits batches over replicas, and elements over workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfdist_kit.conformance.checks.multi_worker_mirrored._common import both, make
from tfdist_kit.conformance.checks.multi_worker_mirrored._rows import (
    flat,
    lines,
    parts,
    policy,
    steps,
    times,
    write_lines,
)
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject
from tfdist_kit.testing import Worker

pytestmark = pytest.mark.tfdist(workers=2, timeout=60)


@claim("mwms.distribute-dataset.rebatches")
@both
def test_each_replica_gets_its_part_of_the_batch_size(subject: Subject, api: str) -> None:
    import tensorflow as tf

    strategy = make(subject, api)
    dataset = tf.data.Dataset.range(8).batch(4)
    seen = steps(strategy, strategy.experimental_distribute_dataset(dataset))
    assert [[len(part) for part in step] for step in seen] == [[2], [2]]


@claim("mwms.distribute-dataset.rebatches")
@pytest.mark.tfdist(local_replicas=2)
def test_each_of_four_replicas_gets_a_quarter(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    dataset = tf.data.Dataset.range(16).batch(8)
    seen = steps(strategy, strategy.experimental_distribute_dataset(dataset))
    assert [[len(part) for part in step] for step in seen] == [[2, 2], [2, 2]]


@claim("mwms.distribute-dataset.indivisible-batch")
def test_a_batch_that_replicas_do_not_divide_is_split_unevenly(
    subject: Subject, tf_worker: Worker
) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    first = tf_worker.rank == 0
    threes = strategy.experimental_distribute_dataset(tf.data.Dataset.range(6).batch(3))
    assert steps(strategy, threes) == ([[[0, 1]], [[3, 4]]] if first else [[[2]], [[5]]])
    ones = strategy.experimental_distribute_dataset(tf.data.Dataset.range(2).batch(1))
    assert steps(strategy, ones) == ([[[0]], [[1]]] if first else [[[]], [[]]])


@claim("mwms.distribute-dataset.partial-last-batch")
def test_the_last_smaller_batch_is_split_too(subject: Subject, tf_worker: Worker) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    first = tf_worker.rank == 0

    def last(count: int, *, drop: bool) -> list[int]:
        dataset = tf.data.Dataset.range(count).batch(4, drop_remainder=drop)
        distributed = strategy.experimental_distribute_dataset(dataset)
        return flat(steps(strategy, distributed)[1:])

    assert last(5, drop=False) == ([4] if first else [])
    assert last(7, drop=False) == ([4, 5] if first else [6])
    assert last(7, drop=True) == []


@claim("mwms.distribute-dataset.shards-over-workers")
@both
def test_each_element_goes_to_one_worker(subject: Subject, api: str) -> None:
    import tensorflow as tf

    strategy = make(subject, api)
    dataset = tf.data.Dataset.range(8).batch(4)
    mine = flat(steps(strategy, strategy.experimental_distribute_dataset(dataset)))
    assert len(mine) == 4
    assert times(strategy, mine, 8) == [1] * 8


@claim("mwms.distribute-dataset.shards-over-workers")
@pytest.mark.tfdist(workers=3)
def test_each_element_goes_to_one_of_three_workers(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    dataset = tf.data.Dataset.range(6).batch(3)
    mine = flat(steps(strategy, strategy.experimental_distribute_dataset(dataset)))
    assert len(mine) == 2
    assert times(strategy, mine, 6) == [1] * 6


@claim("mwms.distribute-dataset.shuffled-without-a-seed")
def test_a_step_has_no_element_twice_if_shuffled_without_a_seed(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    dataset = tf.data.Dataset.range(64).shuffle(64).batch(64)
    mine = flat(steps(strategy, strategy.experimental_distribute_dataset(dataset)))
    twice = any(count > 1 for count in times(strategy, mine, 64))
    assert not twice, "some elements of a step come twice"


@claim("mwms.distribute-dataset.shuffled-with-a-seed")
def test_a_step_has_no_element_twice_if_shuffled_with_one_seed(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    tf.random.set_seed(7)
    try:
        dataset = tf.data.Dataset.range(64).shuffle(64).batch(64)
        mine = flat(steps(strategy, strategy.experimental_distribute_dataset(dataset)))
    finally:
        tf.random.set_seed(None)  # the next test in this process has none
    assert mine != sorted(mine), "it was not shuffled"
    assert times(strategy, mine, 64) == [1] * 64


@claim("mwms.distribute-dataset.shards-within-a-worker")
@pytest.mark.tfdist(local_replicas=2)
def test_the_devices_of_a_worker_get_different_elements(
    subject: Subject, tf_worker: Worker, tmp_path: Path
) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    files = write_lines(tmp_path, tf_worker.rank, 4, 4)
    for name in ("AUTO", "DATA", "OFF", "FILE"):
        source = lines(files) if name == "FILE" else tf.data.Dataset.range(8)
        dataset = source.batch(4).with_options(policy(name))
        for step in steps(strategy, strategy.experimental_distribute_dataset(dataset)):
            assert len(step) == 2
            assert all(step), f"{name}: one of the devices gets nothing: {step}"
            assert not set(step[0]) & set(step[1]), f"{name}: both get the same: {step}"


@claim("mwms.distribute-dataset.not-batched")
def test_refuses_scalars_that_are_not_batched(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    with pytest.raises((IndexError, ValueError)):
        strategy.experimental_distribute_dataset(tf.data.Dataset.range(4))


@claim("mwms.distribute-dataset.first-dimension-is-the-batch")
def test_vectors_that_are_not_batched_are_split_themselves(
    subject: Subject, tf_worker: Worker
) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    dataset = tf.data.Dataset.from_tensor_slices([[0, 1, 2, 3], [4, 5, 6, 7]])
    seen = [parts(strategy, each) for each in strategy.experimental_distribute_dataset(dataset)]
    assert seen == ([[[0, 1]], [[4, 5]]] if tf_worker.rank == 0 else [[[2, 3]], [[6, 7]]])
