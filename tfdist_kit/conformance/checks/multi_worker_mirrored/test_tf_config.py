"""TF_CONFIG: how the processes of a program become a cluster."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

from tfdist_kit.conformance.checks.multi_worker_mirrored._common import (
    all_reduced,
    both,
    make,
    one_of_each,
    tf_config,
    with_tf_config,
)
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject
from tfdist_kit.testing import Worker, gather

pytestmark = pytest.mark.tfdist(workers=2, timeout=60)
alone = pytest.mark.tfdist(workers=1)
fresh = pytest.mark.tfdist(fresh=True)

LATE = 0.3
"""Seconds: several times what a strategy takes to be made."""


@both
@claim("mwms.tf-config.one-process-per-worker")
def test_one_process_per_worker(subject: Subject, tf_worker: Worker, api: str) -> None:
    configs = gather(tf_config())
    assert [config["task"].pop("index") for config in configs] == [0, 1]
    assert configs[0] == configs[1]
    assert len(set(gather(os.getpid()))) == 2
    strategy = make(subject, api)
    assert strategy.num_replicas_in_sync == 2
    assert all_reduced(strategy, tf_worker.rank + 1.0) == [3.0]


@fresh
@claim("mwms.tf-config.example")
def test_example(subject: Subject, tf_worker: Worker) -> None:
    config = {
        "cluster": {"worker": ["localhost:12345", "localhost:23456"]},
        "task": {"type": "worker", "index": tf_worker.rank},
    }
    with with_tf_config(config):
        strategy = subject.make_strategy()
    assert strategy.num_replicas_in_sync == 2
    assert all_reduced(strategy, tf_worker.rank + 1.0) == [3.0]


@fresh
@pytest.mark.parametrize("last", [0, 1])
@claim("mwms.tf-config.waits-for-every-worker")
def test_waits_for_every_worker(subject: Subject, tf_worker: Worker, last: int) -> None:
    gather(None)
    if tf_worker.rank == last:
        time.sleep(LATE)
    begun = time.monotonic()
    subject.make_strategy()
    begun_in, made_in = zip(*gather((begun, time.monotonic())), strict=True)
    assert min(made_in) > begun_in[last]


@alone
@fresh
@claim("mwms.tf-config.absent-is-single")
def test_absent(subject: Subject) -> None:
    with with_tf_config(None):
        assert_is_single(subject.make_strategy())
        assert_is_single(subject.make_strategy_v1())


@alone
@fresh
@claim("mwms.tf-config.no-cluster-is-single")
def test_no_cluster(subject: Subject) -> None:
    with with_tf_config({"task": tf_config()["task"]}):
        strategy = subject.make_strategy()
    assert_is_single(strategy)


def assert_is_single(strategy: Any) -> None:
    assert strategy.num_replicas_in_sync == 1
    [device] = strategy.extended.worker_devices
    assert "/job:localhost/" in device
    assert all_reduced(strategy, 5.0) == [5.0]


@alone
@claim("mwms.tf-config.cluster-of-one")
def test_cluster_of_one(subject: Subject) -> None:
    strategy = subject.make_strategy()
    assert strategy.num_replicas_in_sync == 1
    [device] = strategy.extended.worker_devices
    assert device.startswith("/job:worker/replica:0/task:0/")
    assert all_reduced(strategy, 5.0) == [5.0]


@alone
@claim("mwms.tf-config.task-is-required")
def test_task_is_required(subject: Subject) -> None:
    cluster = tf_config()["cluster"]
    for more in ({}, {"task": {"index": 0}}, {"task": {"type": "worker"}}):
        with (
            with_tf_config({"cluster": cluster, **more}),
            pytest.raises(ValueError, match="you must also specify `task_type` and `task_id`"),
        ):
            subject.make_strategy()


@claim("mwms.tf-config.index-as-text")
def test_index_as_text(subject: Subject, tf_worker: Worker) -> None:
    config = tf_config()
    config["task"]["index"] = str(tf_worker.rank)
    with with_tf_config(config):
        strategy = subject.make_strategy()
        assert strategy.cluster_resolver.task_id == tf_worker.rank
    assert all_reduced(strategy, tf_worker.rank + 1.0) == [3.0]


@pytest.mark.tfdist(workers=1, chief=True)
@claim("mwms.tf-config.chief-is-first")
def test_chief_is_first(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    assert strategy.num_replicas_in_sync == 2
    seen: list[int] = []

    def step() -> None:
        seen.append(int(tf.distribute.get_replica_context().replica_id_in_sync_group))

    strategy.run(step)
    task = tf_config()["task"]["type"]
    assert gather((task, seen)) == [("chief", [0]), ("worker", [1])]


@claim("mwms.tf-config.worker-zero-is-chief")
def test_worker_zero_is_chief(subject: Subject) -> None:
    for strategy in one_of_each(subject):
        assert gather(strategy.extended.should_checkpoint) == [True, False]


@claim("mwms.tf-config.task-from-arguments")
def test_task_from_arguments(subject: Subject, tf_worker: Worker) -> None:
    import tensorflow as tf

    config = tf_config()
    config["task"] = {"type": "chief", "index": 1 - tf_worker.rank}
    with with_tf_config(config):
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver(
            task_type="worker", task_id=tf_worker.rank
        )
        assert (resolver.task_type, resolver.task_id) == ("worker", tf_worker.rank)
        strategy = subject.make_strategy(cluster_resolver=resolver)
    [device] = strategy.extended.worker_devices
    assert device.startswith(f"/job:worker/replica:0/task:{tf_worker.rank}/")
    assert all_reduced(strategy, tf_worker.rank + 1.0) == [3.0]
