"""What the attributes of a strategy say."""

from __future__ import annotations

import pytest

from tfdist_kit.conformance.checks.multi_worker_mirrored._common import (
    all_reduced,
    one_of_each,
    tf_config,
    with_tf_config,
)
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject
from tfdist_kit.testing import Worker

pytestmark = pytest.mark.tfdist(workers=2, timeout=60)
alone = pytest.mark.tfdist(workers=1)


@pytest.mark.tfdist(local_replicas=2)
@claim("mwms.attributes.replicas-in-sync")
def test_replicas_in_sync(subject: Subject) -> None:
    assert [one.num_replicas_in_sync for one in one_of_each(subject)] == [4, 4]


@alone
@claim("mwms.attributes.extended")
def test_extended(subject: Subject) -> None:
    import tensorflow as tf

    v2, v1 = one_of_each(subject)
    assert isinstance(v2.extended, tf.distribute.StrategyExtended)
    assert isinstance(v1.extended, tf.compat.v1.distribute.StrategyExtended)


@claim("mwms.attributes.cluster-resolver-task")
def test_cluster_resolver_task(subject: Subject, tf_worker: Worker) -> None:
    for strategy in one_of_each(subject):
        resolver = strategy.cluster_resolver
        assert (resolver.task_type, resolver.task_id) == ("worker", tf_worker.rank)


@pytest.mark.tfdist(fresh=True, timeout=4)  # it is known to wait for ever
@claim("mwms.attributes.ps-in-the-cluster")
def test_ps_in_the_cluster(subject: Subject, tf_worker: Worker) -> None:
    config = tf_config()
    config["cluster"]["ps"] = ["localhost:34567"]
    with with_tf_config(config):
        strategy = subject.make_strategy()
    assert strategy.cluster_resolver.task_type == "worker"
    assert strategy.num_replicas_in_sync == 2
    assert all_reduced(strategy, tf_worker.rank + 1.0) == [3.0]


@alone
@claim("mwms.attributes.ps-task")
def test_ps_task(subject: Subject) -> None:
    cluster = {**tf_config()["cluster"], "ps": ["localhost:34567"]}
    with with_tf_config({"cluster": cluster, "task": {"type": "ps", "index": 0}}):
        strategy = subject.make_strategy()
    assert strategy.cluster_resolver.task_type == "ps"


@alone
@claim("mwms.attributes.experimental-alias")
def test_experimental_alias() -> None:
    import tensorflow as tf

    strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy()
    assert isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
