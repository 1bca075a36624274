"""The arguments of the class: communication and cluster_resolver."""

from __future__ import annotations

import pytest

from tfdist_kit.conformance.checks.multi_worker_mirrored._common import (
    APIS,
    all_reduced,
    make,
    one_of_each,
    own_resolver,
    tf_config,
    with_tf_config,
)
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject
from tfdist_kit.testing import Worker

pytestmark = pytest.mark.tfdist(workers=2, timeout=60)
alone = pytest.mark.tfdist(workers=1)


@pytest.mark.parametrize("name", ["AUTO", "RING", "NCCL"])
@claim("mwms.args.communication-is-a-hint")
def test_communication(subject: Subject, tf_worker: Worker, name: str) -> None:
    import tensorflow as tf

    known = tf.compat.v1.distribute.experimental.CollectiveCommunication
    strategy = subject.make_strategy_v1(communication=known[name])
    assert all_reduced(strategy, tf_worker.rank + 1.0) == [3.0]


@alone
@claim("mwms.args.communication-unknown")
def test_communication_unknown(subject: Subject) -> None:
    for unknown in ("bogus", 5):
        with pytest.raises(ValueError, match="CommunicationImplementation"):
            subject.make_strategy_v1(communication=unknown)


@alone
@claim("mwms.args.cluster-resolver-type")
def test_cluster_resolver_type(subject: Subject) -> None:
    for api in APIS:
        with pytest.raises(ValueError, match="cluster_resolver"):
            make(subject, api, cluster_resolver=5)


@alone
@claim("mwms.args.cluster-resolver-default")
def test_cluster_resolver_default(subject: Subject) -> None:
    import tensorflow as tf

    for strategy in one_of_each(subject):
        resolver = strategy.cluster_resolver
        assert type(resolver) is tf.distribute.cluster_resolver.TFConfigClusterResolver
        assert resolver.cluster_spec().as_dict() == tf_config()["cluster"]


@pytest.mark.tfdist(fresh=True)  # a warm worker has a server already, that of TF_CONFIG
@claim("mwms.args.own-cluster-resolver")
def test_own_cluster_resolver(subject: Subject, tf_worker: Worker) -> None:
    resolver = own_resolver()
    with with_tf_config(None):
        strategy = subject.make_strategy(cluster_resolver=resolver)
    assert strategy.cluster_resolver is resolver
    assert strategy.num_replicas_in_sync == 2
    assert all_reduced(strategy, tf_worker.rank + 1.0) == [3.0]


@alone
@claim("mwms.args.resolver-without-task")
def test_resolver_without_task(subject: Subject) -> None:
    import tensorflow as tf

    cluster = tf.train.ClusterSpec(tf_config()["cluster"])
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster)
    for api in APIS:
        with pytest.raises(ValueError, match=r"task.?.?.?type"):
            make(subject, api, cluster_resolver=resolver)
