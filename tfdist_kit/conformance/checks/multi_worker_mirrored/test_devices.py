"""Which devices a worker uses."""

from __future__ import annotations

from typing import Any

import pytest

from tfdist_kit.conformance.checks.multi_worker_mirrored._common import (
    all_reduced,
    own_resolver,
    tf_config,
    with_tf_config,
)
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject
from tfdist_kit.testing import Worker

pytestmark = pytest.mark.tfdist(workers=2, timeout=60)
alone = pytest.mark.tfdist(workers=1)
fresh = pytest.mark.tfdist(fresh=True)


@claim("mwms.devices.resolver-counts-gpus")
def test_resolver_counts_gpus(subject: Subject, tf_worker: Worker) -> None:
    strategy = subject.make_strategy(cluster_resolver=own_resolver(num_accelerators={"GPU": 1}))
    task = f"/job:worker/replica:0/task:{tf_worker.rank}"
    assert strategy.extended.worker_devices == (f"{task}/device:GPU:0",)


@alone
@claim("mwms.devices.one-replica-per-gpu")
def test_one_replica_per_gpu(subject: Subject) -> None:
    import tensorflow as tf

    count = len(tf.config.list_physical_devices("GPU"))
    strategy = subject.make_strategy(cluster_resolver=own_resolver(num_accelerators={"GPU": count}))
    assert strategy.num_replicas_in_sync == count
    used: list[str] = []
    strategy.run(lambda: used.append(tf.random.uniform(()).device))
    task = "/job:worker/replica:0/task:0"
    assert sorted(used) == sorted(f"{task}/device:GPU:{index}" for index in range(count))


@pytest.mark.parametrize("accelerators", [{}, {"GPU": 0}], ids=str)
@claim("mwms.devices.cpu-if-no-gpu")
def test_cpu_if_no_gpu(subject: Subject, tf_worker: Worker, accelerators: dict[str, int]) -> None:
    resolver = own_resolver(num_accelerators=accelerators)
    strategy = subject.make_strategy(cluster_resolver=resolver)
    task = f"/job:worker/replica:0/task:{tf_worker.rank}"
    assert strategy.extended.worker_devices == (f"{task}/device:CPU:0",)
    assert all_reduced(strategy, tf_worker.rank + 1.0) == [3.0]


@fresh  # the number of logical CPUs is that of the process
@claim("mwms.devices.one-replica-on-cpu")
def test_one_replica_on_cpu(subject: Subject, tf_worker: Worker) -> None:
    import tensorflow as tf

    if tf.config.list_physical_devices("GPU"):
        pytest.skip("there is a GPU")
    split_cpu()
    assert subject.make_strategy().num_replicas_in_sync == 2
    assert len([one for one in tf.config.list_logical_devices("CPU") if is_of(one, tf_worker)]) == 2
    own = own_resolver(num_accelerators={"CPU": 2})
    strategy = subject.make_strategy(cluster_resolver=own)
    assert strategy.num_replicas_in_sync == 2
    assert all_reduced(strategy, tf_worker.rank + 1.0) == [3.0]


def split_cpu() -> None:
    import tensorflow as tf

    [cpu] = tf.config.list_physical_devices("CPU")
    two = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(cpu, two)


def is_of(device: Any, worker: Worker) -> bool:
    return f"/task:{worker.rank}/" in device.name


@fresh
@claim("mwms.devices.cluster-sizes-disagree")
def test_cluster_sizes_disagree(subject: Subject, tf_worker: Worker) -> None:
    import tensorflow as tf

    config = tf_config()
    if tf_worker.rank == 1:
        config["cluster"]["worker"].append("localhost:34567")
    with with_tf_config(config):
        strategy = subject.make_strategy()
    with pytest.raises(tf.errors.OpError, match="size"):
        all_reduced(strategy, 1.0)


@alone
@claim("mwms.devices.not-for-tpu")
def test_not_for_tpu(subject: Subject) -> None:
    resolver = own_resolver(num_accelerators={"TPU": 1})
    with pytest.raises(ValueError, match="TPU"):
        subject.make_strategy(cluster_resolver=resolver)


@fresh  # MirroredStrategy wants as many CPUs as there are workers
@claim("mwms.devices.like-mirrored")
def test_like_mirrored(subject: Subject) -> None:
    import tensorflow as tf

    split_cpu()
    found = trained(subject.make_strategy())
    assert found == trained(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]))
    assert found == ([7.0, 23.0], 29.0)


def trained(strategy: Any) -> tuple[list[float], float]:
    """A loop as it is written for any strategy: what each step gives, and the end."""
    import tensorflow as tf

    with strategy.scope():
        variable = tf.Variable(1.0, aggregation=tf.VariableAggregation.SUM)
    data = strategy.experimental_distribute_dataset(tf.data.Dataset.range(8).batch(4))

    def step(batch: Any) -> Any:
        loss = tf.reduce_sum(tf.cast(batch, tf.float32))
        variable.assign_add(loss)
        replica = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32)
        return loss + replica

    losses = [
        strategy.reduce("sum", strategy.run(step, args=(batch,)), axis=None) for batch in data
    ]
    return [float(loss) for loss in losses], float(variable.numpy())
