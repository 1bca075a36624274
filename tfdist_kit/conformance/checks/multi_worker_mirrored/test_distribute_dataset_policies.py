"""How the auto-shard policies of experimental_distribute_dataset give the workers their parts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tfdist_kit.conformance.checks.multi_worker_mirrored._common import both, make
from tfdist_kit.conformance.checks.multi_worker_mirrored._rows import (
    flat,
    lines,
    policy,
    steps,
    times,
    write_lines,
)
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject
from tfdist_kit.testing import Worker

pytestmark = pytest.mark.tfdist(workers=2, timeout=60)


@claim("mwms.distribute-dataset.auto-is-the-default")
@pytest.mark.tfdist(workers=1)
def test_the_policy_is_auto_unless_said(subject: Subject) -> None:
    import tensorflow as tf

    subject.make_strategy()  # else this process could never make one: a dataset comes too early
    names = tf.data.experimental.AutoShardPolicy
    assert tf.data.Options().experimental_distribute.auto_shard_policy == names.AUTO
    dataset = tf.data.Dataset.range(2)
    assert dataset.options().experimental_distribute.auto_shard_policy == names.AUTO
    other = dataset.with_options(policy("OFF"))
    assert other.options().experimental_distribute.auto_shard_policy == names.OFF


@claim("mwms.distribute-dataset.auto-shards-by-file")
@both
def test_auto_gives_each_worker_files_of_its_own(
    subject: Subject, tf_worker: Worker, tmp_path: Path, api: str
) -> None:
    strategy = make(subject, api)
    files = write_lines(tmp_path, tf_worker.rank, 3, 3, 3, 3)
    distributed = strategy.experimental_distribute_dataset(lines(files).batch(2))
    mine = flat(steps(strategy, distributed))
    read = sorted({number // 3 for number in mine})
    assert sorted(mine) == [3 * file + line for file in read for line in range(3)]
    assert len(read) == 2
    assert times(strategy, mine, 12) == [1] * 12


@claim("mwms.distribute-dataset.auto-shards-by-data")
@both
def test_auto_has_each_worker_read_all_and_keep_its_part(
    subject: Subject, tf_worker: Worker, api: str
) -> None:
    import tensorflow as tf

    strategy = make(subject, api)
    read = set()

    def numbers() -> Iterator[int]:
        for number in range(8):
            read.add(number)
            yield number

    spec = tf.TensorSpec([], tf.int64)
    dataset = tf.data.Dataset.from_generator(numbers, output_signature=spec).batch(4)
    mine = flat(steps(strategy, strategy.experimental_distribute_dataset(dataset)))
    assert mine == ([0, 1, 4, 5] if tf_worker.rank == 0 else [2, 3, 6, 7])
    assert read == set(range(8))


@claim("mwms.distribute-dataset.too-few-files")
def test_auto_does_not_serve_fewer_files_than_workers(
    subject: Subject, tf_worker: Worker, tmp_path: Path
) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    # Without an end, so that no worker asks the others before each step whether they have ended:
    # the second would wait for the first, which has an error instead.
    endless = lines(write_lines(tmp_path, tf_worker.rank, 4)).repeat().batch(2)
    iterator = iter(strategy.experimental_distribute_dataset(endless))
    if tf_worker.rank == 0:
        with pytest.raises(tf.errors.InvalidArgumentError, match="only has 1 file"):
            next(iterator)
    else:
        with pytest.raises(StopIteration):  # it has no file at all
            next(iterator)


@claim("mwms.distribute-dataset.policy-off")
@both
def test_off_gives_all_to_every_worker(
    subject: Subject, tf_worker: Worker, tmp_path: Path, api: str
) -> None:
    import tensorflow as tf

    strategy = make(subject, api)
    for source in (tf.data.Dataset.range(4), lines(write_lines(tmp_path, tf_worker.rank, 4))):
        dataset = source.batch(2).with_options(policy("OFF"))
        mine = flat(steps(strategy, strategy.experimental_distribute_dataset(dataset)))
        assert mine == [0, 1, 2, 3]


@claim("mwms.distribute-dataset.policy-data")
def test_data_splits_the_elements(subject: Subject, tf_worker: Worker, tmp_path: Path) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    for source in (tf.data.Dataset.range(4), lines(write_lines(tmp_path, tf_worker.rank, 4))):
        dataset = source.batch(2).with_options(policy("DATA"))
        mine = flat(steps(strategy, strategy.experimental_distribute_dataset(dataset)))
        assert len(mine) == 2
        assert times(strategy, mine, 4) == [1] * 4


@claim("mwms.distribute-dataset.policy-file-without-files")
def test_file_refuses_a_dataset_without_files(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    dataset = tf.data.Dataset.range(4).batch(2).with_options(policy("FILE"))
    with pytest.raises(tf.errors.OpError, match="unshardable"):
        steps(strategy, strategy.experimental_distribute_dataset(dataset))


@claim("mwms.distribute-dataset.policy-hint")
def test_hint_shards_where_the_hint_is(subject: Subject, tf_worker: Worker) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    hint = tf.data.experimental.SHARD_HINT
    dataset = tf.data.Dataset.range(8).shard(hint, hint).batch(4).with_options(policy("HINT"))
    mine = flat(steps(strategy, strategy.experimental_distribute_dataset(dataset)))
    # Sharded after batch(4), the first worker would have 0, 1, 4 and 5.
    assert mine == ([0, 2, 4, 6] if tf_worker.rank == 0 else [1, 3, 5, 7])


@claim("mwms.distribute-dataset.uneven-files")
def test_a_worker_whose_files_have_ended_gets_empty_batches(
    subject: Subject, tf_worker: Worker, tmp_path: Path
) -> None:
    strategy = subject.make_strategy()
    files = write_lines(tmp_path, tf_worker.rank, 2, 2, 2)
    seen = steps(strategy, strategy.experimental_distribute_dataset(lines(files).batch(2)))
    both = [[[0]], [[1]], [[4]], [[5]]], [[[2]], [[3]], [[]], [[]]]
    assert seen == both[tf_worker.rank]
