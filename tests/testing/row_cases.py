"""Data whose rows are read once, and data whose rows are not, in each worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.testing.checked import Case, local_strategies, outcomes, rank_of, strategy_of
from tfdist_kit.testing import assert_each_row_once

ROWS = 64


class Data:
    """64 rows with a label, and ways to hand them to a strategy."""

    def __init__(self, strategy: Any) -> None:
        import tensorflow as tf

        self.strategy = strategy
        self.rank = rank_of(strategy)
        self.batch = 4 * strategy.num_replicas_in_sync
        self.labels = np.arange(ROWS)
        self.features = np.stack([self.labels, self.labels * 10], 1).astype(np.float32)
        self.arrays = (self.features, self.labels)
        self.rows = tf.data.Dataset.from_tensor_slices(self.arrays)
        self.batches = self.rows.batch(self.batch)

    def check(self, dataset: Any, rows: Any = None, **more: Any) -> Case:
        return lambda _: assert_each_row_once(dataset, rows, strategy=self.strategy, **more)

    def own(self, function: Callable[[Any], Any], rows: Any = None, **more: Any) -> Case:
        """The data of a function that gives each worker its own."""

        def case(strategy: Any) -> None:
            data = strategy.distribute_datasets_from_function(function)
            assert_each_row_once(data, rows, strategy=strategy, **more)

        return case

    def failing(self, rank: int) -> Any:
        """The rows, of which one cannot be read on one of the workers."""
        import tensorflow as tf

        fails = self.rank == rank

        def check(features: Any, label: Any) -> Any:
            bad = tf.logical_and(fails, label > 40)
            with tf.control_dependencies([tf.debugging.Assert(tf.logical_not(bad), ["bad row"])]):
                return features, tf.identity(label)

        return self.rows.map(check)


def policy(dataset: Any, name: str) -> Any:
    import tensorflow as tf

    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy[name]
    return dataset.with_options(options)


def shard(data: Any, context: Any) -> Any:
    return data.shard(context.num_input_pipelines, context.input_pipeline_id)


def in_worker(api: str, replicas: int, only: list[str] | None) -> dict[str, str]:
    strategy = strategy_of(api, replicas)
    data = Data(strategy)
    cases = {**_right(data), **_wrong(data), **_failing(data), **_refused(data)}
    cases = {name: case for name, case in cases.items() if only is None or name in only}
    return outcomes(strategy, {**cases, "afterwards": data.check(data.batches)})


def _right(data: Data) -> dict[str, Case]:
    import tensorflow as tf

    from tfdist_kit.adapters.datasets import load

    rows = data.rows
    strings = {"a": ["x", "y", "z", "z"], "b": tf.ragged.constant([[1], [2, 3], [], []])}

    def loaded(strategy: Any) -> None:
        batches = load(
            "uci_digits", split="train[:101]", global_batch=data.batch, strategy=strategy
        )
        assert_each_row_once(batches, 101, strategy=strategy)

    return {
        "plain": data.check(data.batches),
        "no strategy given": lambda _: assert_each_row_once(data.batches),
        "a seed": data.check(rows.shuffle(ROWS, seed=3).batch(data.batch)),
        "uneven": data.check(rows.take(61).batch(data.batch)),
        "less than replicas": data.check(rows.take(1).batch(data.batch)),
        "equal rows": data.check(tf.data.Dataset.from_tensor_slices(data.labels % 7).batch(8)),
        "strings": data.check(tf.data.Dataset.from_tensor_slices(strings).batch(2)),
        "arrays as rows": data.check(data.batches, data.arrays),
        "OFF": data.check(policy(shard_by(data).batch(8), "OFF"), rows),
        "function": data.own(lambda c: shard(rows, c).batch(4), rows),
        "function, batches as rows": data.own(lambda c: shard(rows, c).batch(4), rows.batch(7)),
        "function, a number": data.own(lambda c: shard(rows, c).batch(4), ROWS),
        "load": loaded,
        "a list": data.check(_own_list(data), data.features),
    }


def shard_by(data: Data) -> Any:
    replicas = len(data.strategy.extended.worker_devices)
    return data.rows.shard(data.strategy.num_replicas_in_sync // replicas, data.rank)


def _own_list(data: Data) -> list[Any]:
    local = len(data.strategy.extended.worker_devices)
    own = data.features[data.rank :: data.strategy.num_replicas_in_sync // local]
    return [own[:10], own[10:]]


def _wrong(data: Data) -> dict[str, Case]:
    rows, batch = data.rows, data.batch
    return {
        "no seed": data.check(rows.shuffle(ROWS).batch(batch)),
        "no seed, rows given": data.check(rows.shuffle(ROWS).batch(batch), rows),
        "not sharded": data.check(policy(data.batches, "OFF")),
        "function without shard": data.own(lambda c: rows.batch(4), rows),
        "function without shard, a number": data.own(lambda c: rows.batch(4), ROWS),
        "same part": data.own(lambda c: rows.shard(2, 0).batch(4), rows),
        "sharded twice": data.check(shard_by(data).batch(batch)),
        "sharded twice, rows given": data.check(shard_by(data).batch(batch), rows),
        "shuffle and take": data.check(rows.shuffle(ROWS).take(40).batch(batch)),
        "dropped": data.check(rows.take(61).batch(batch, drop_remainder=True), rows.take(61)),
        "OFF, dropped": data.check(
            policy(shard_by(data).batch(7, drop_remainder=True), "OFF"), rows
        ),
        "repeated": data.own(lambda c: shard(rows, c).repeat(3).batch(4), rows),
        "too few": data.own(lambda c: shard(rows, c).batch(4), 70),
        "unknown": data.check(data.batches, rows.take(60)),
        "equal rows lost": data.own(
            lambda c: shard(rows.skip(1), c).batch(4), rows.take(1).concatenate(rows.skip(1))
        ),
    }


def _failing(data: Data) -> dict[str, Case]:
    bad = data.failing(1)

    def endless(context: Any) -> Any:
        return bad.repeat().filter(lambda features, label: label >= 0).batch(4)

    return {
        "plain fails": data.check(bad.batch(data.batch)),
        "fails on rank 0": data.check(data.failing(0).batch(data.batch), data.rows),
        "function's fails": data.own(lambda c: shard(bad, c).batch(4), data.rows),
        "endless fails": data.own(endless, ROWS, max_batches=30),
        "no files": data.check(policy(data.batches, "FILE")),
    }


def _refused(data: Data) -> dict[str, Case]:
    rows = data.rows
    endless = rows.repeat().filter(lambda features, label: label >= 0)
    return {
        "no rows": data.own(lambda c: rows.batch(4)),
        "repeat": data.check(rows.repeat().batch(8)),
        "function with repeat": data.own(lambda c: rows.repeat().batch(4), ROWS),
        "endless": data.check(endless.batch(data.batch), max_batches=30),
        "function's endless": data.own(lambda c: endless.batch(4), ROWS, max_batches=30),
        "not batched": data.check(rows.map(lambda features, label: label)),
        "another type": data.check(data.batches, (data.features.astype(float), data.labels)),
        "another structure": data.check(data.batches, data.features),
        "other rows on each": data.check(policy(shard_by(data).batch(8), "OFF")),
        "other rows= on each": data.check(data.batches, rows.take(60 + data.rank)),
        "no data": data.check(3, ROWS),
        "rows of zero": data.check(data.batches, 0),
        "other kinds": data.check([data.features] if data.rank else data.batches, data.arrays),
    }


def in_worker_alone() -> dict[str, dict[str, str]]:
    import tensorflow as tf

    strategies = local_strategies()
    rows = tf.data.Dataset.range(10)
    return {
        kind: outcomes(
            strategy,
            {
                "right": lambda own: assert_each_row_once(rows.batch(4), strategy=own),
                "lost": lambda own: assert_each_row_once(rows.skip(1).batch(4), rows, strategy=own),
            },
        )
        for kind, strategy in strategies.items()
    }
