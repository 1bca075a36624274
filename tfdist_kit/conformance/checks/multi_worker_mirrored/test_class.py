"""The class: how it is made, what it is, and what it does with several workers."""

from __future__ import annotations

import inspect
import itertools
from typing import Any

import pytest

from tfdist_kit.conformance.checks.multi_worker_mirrored._common import (
    all_reduced,
    both,
    copies,
    make,
    one_of_each,
)
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject
from tfdist_kit.testing import Worker, gather

pytestmark = pytest.mark.tfdist(workers=2, timeout=60)
alone = pytest.mark.tfdist(workers=1)
two_replicas = pytest.mark.tfdist(local_replicas=2)

METHODS = (
    "distribute_datasets_from_function",
    "experimental_distribute_dataset",
    "experimental_local_results",
    "experimental_make_numpy_dataset",
    "experimental_run",
    "make_dataset_iterator",
    "make_input_fn_iterator",
    "reduce",
    "run",
    "scope",
    "update_config_proto",
)


def arguments(constructor: Any) -> list[tuple[str, Any]]:
    parameters = inspect.signature(constructor).parameters.values()
    return [(one.name, one.default) for one in parameters]


@alone
@claim("mwms.class.constructor-v1")
def test_constructor_v1() -> None:
    import tensorflow as tf

    experimental = tf.compat.v1.distribute.experimental
    auto = experimental.CollectiveCommunication.AUTO
    found = arguments(experimental.MultiWorkerMirroredStrategy)
    assert found == [("communication", auto), ("cluster_resolver", None)]


@alone
@claim("mwms.class.constructor-v2")
def test_constructor_v2() -> None:
    import tensorflow as tf

    found = arguments(tf.distribute.MultiWorkerMirroredStrategy)
    assert found == [("cluster_resolver", None), ("communication_options", None)]


@alone
@claim("mwms.class.is-a-strategy")
def test_is_a_strategy(subject: Subject) -> None:
    import tensorflow as tf

    v2, v1 = one_of_each(subject)
    assert isinstance(v2, tf.distribute.Strategy)
    assert isinstance(v1, tf.compat.v1.distribute.Strategy)


@alone
@claim("mwms.class.methods-v1")
def test_methods_v1(subject: Subject) -> None:
    strategy = subject.make_strategy_v1()
    assert [name for name in METHODS if not callable(getattr(strategy, name, None))] == []


@both
@claim("mwms.class.all-reduce-joins-workers")
def test_all_reduce(subject: Subject, tf_worker: Worker, api: str) -> None:
    import tensorflow as tf

    strategy = make(subject, api)
    assert all_reduced(strategy, tf_worker.rank + 1.0) == [3.0]
    within = tf.function(lambda: strategy.run(summed_thrice, args=(tf_worker.rank + 1.0,)))
    [total] = strategy.experimental_local_results(within())
    assert float(total) == 9.0


def summed_thrice(value: Any) -> Any:
    import tensorflow as tf

    return tf.distribute.get_replica_context().all_reduce("sum", 3.0 * value)


@pytest.mark.tfdist(workers=3)
@claim("mwms.class.three-workers")
def test_three_workers(subject: Subject, tf_worker: Worker) -> None:
    strategy = subject.make_strategy()
    assert strategy.num_replicas_in_sync == 3
    assert all_reduced(strategy, tf_worker.rank + 1.0) == [6.0]
    assert all_reduced(strategy, tf_worker.rank + 1.0, "mean") == [2.0]


@two_replicas
@claim("mwms.class.variables-on-every-device")
def test_variables_on_every_device(subject: Subject, tf_worker: Worker) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    with strategy.scope():
        variable = tf.Variable(1.0)
    there = [one.device for one in strategy.experimental_local_results(variable)]
    assert there == list(strategy.extended.worker_devices)
    everywhere = list(itertools.chain(*gather(there)))
    assert len(set(everywhere)) == len(everywhere) == tf_worker.size * 2


@two_replicas
@claim("mwms.class.computation-on-every-device")
def test_computation_on_every_device(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    ran: list[tuple[int, str]] = []

    def step() -> None:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        ran.append((int(replica), tf.zeros(()).device))

    strategy.run(step)
    everywhere = sorted(itertools.chain(*gather(ran)))
    assert [replica for replica, _ in everywhere] == [0, 1, 2, 3]
    assert len({device for _, device in everywhere}) == 4


@claim("mwms.class.same-initial-values")
def test_same_initial_values(subject: Subject, tf_worker: Worker) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    with strategy.scope():
        variable = tf.Variable(10.0 + tf_worker.rank)
    assert gather(copies(strategy, variable)) == [[10.0], [10.0]]
