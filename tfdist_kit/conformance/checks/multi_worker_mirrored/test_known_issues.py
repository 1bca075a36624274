"""What the page calls known issues: devices, and what may come before the strategy."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject

pytestmark = pytest.mark.tfdist(workers=2, timeout=60)
alone = pytest.mark.tfdist(workers=1)
unused = pytest.mark.tfdist(workers=1, fresh=True)
"""A process in which TensorFlow has done nothing so far."""

TOO_LATE = "must be configured at program startup|initialised before the strategy"


@claim("mwms.known-issues.tf-config-miscounts-gpus")
@alone
def test_the_resolver_counts_no_gpus() -> None:
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    seen = len(tf.config.list_logical_devices("GPU"))
    assert resolver.num_accelerators().get("GPU", 0) != seen


@claim("mwms.known-issues.all-gpus-are-used")
@pytest.mark.parametrize("given", [True, False], ids=["a resolver", "None"])
@alone
def test_there_is_a_replica_on_each_gpu(subject: Subject, given: bool) -> None:
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver() if given else None
    strategy = subject.make_strategy(cluster_resolver=resolver)
    gpus = len(tf.config.list_logical_devices("GPU"))
    assert strategy.num_replicas_in_sync == gpus
    assert all("GPU" in device for device in strategy.extended.worker_devices)


@claim("mwms.known-issues.created-first")
@unused
def test_it_is_refused_after_an_operation(subject: Subject) -> None:
    import tensorflow as tf

    tf.constant(1.0)
    for make in (subject.make_strategy, subject.make_strategy_v1):
        with pytest.raises(RuntimeError, match=TOO_LATE):
            make()


@claim("mwms.known-issues.what-is-too-early")
@unused
def test_it_is_refused_after_each_of_these(subject: Subject) -> None:
    import tensorflow as tf

    calls: dict[str, Callable[[], Any]] = {
        "a variable": lambda: tf.Variable(1.0),
        "a dataset": lambda: tf.data.Dataset.range(2),
        "logical devices": lambda: tf.config.list_logical_devices(),
        "another strategy": lambda: tf.distribute.OneDeviceStrategy("CPU:0"),
        "a device block": lambda: tf.device("CPU:0").__enter__(),
    }
    refused = {name: _in_a_copy(partial(_after, subject, call)) for name, call in calls.items()}
    assert refused == dict.fromkeys(calls, True)


@claim("mwms.known-issues.what-may-come-first")
@unused
def test_these_may_come_first(subject: Subject) -> None:
    import tensorflow as tf

    tf.random.set_seed(1)
    tf.config.experimental.enable_op_determinism()
    tf.config.list_physical_devices()
    tf.config.threading.set_inter_op_parallelism_threads(2)
    tf.config.threading.set_intra_op_parallelism_threads(2)
    double = tf.function(lambda x: 2.0 * x)
    strategy = subject.make_strategy()
    assert float(strategy.run(double, args=(1.0,))) == 2.0


@claim("mwms.known-issues.created-first-alone")
@unused
def test_it_is_refused_without_a_cluster_too(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tensorflow as tf

    monkeypatch.delenv("TF_CONFIG")
    tf.constant(1.0)
    with pytest.raises(RuntimeError, match=TOO_LATE):
        subject.make_strategy()


@claim("mwms.known-issues.graph-mode-any-time")
@pytest.mark.tfdist(fresh=True)
def test_in_graph_mode_it_may_be_made_at_any_time(subject: Subject) -> None:
    import tensorflow as tf

    tf.constant(1.0)
    with tf.Graph().as_default():
        tf.constant(1.0)
        for make in (subject.make_strategy_v1, subject.make_strategy):
            strategy = make()
            assert strategy.num_replicas_in_sync == 2
            total = strategy.reduce("SUM", strategy.run(lambda: tf.constant(1.0)), axis=None)
            assert total.graph is tf.compat.v1.get_default_graph()


@claim("mwms.known-issues.second-strategy")
def test_a_second_strategy_works(subject: Subject) -> None:
    import tensorflow as tf

    for make in (subject.make_strategy, subject.make_strategy_v1, subject.make_strategy):
        strategy = make()
        assert float(strategy.reduce("SUM", tf.constant(1.0), axis=None)) == 2.0


@claim("mwms.known-issues.strategies-in-turn")
@pytest.mark.tfdist(fresh=True)
def test_two_strategies_in_turn_get_into_each_others_way(subject: Subject) -> None:
    import tensorflow as tf

    first, second = subject.make_strategy(), subject.make_strategy()
    assert float(first.reduce("SUM", tf.constant(1.0), axis=None)) == 2.0
    with pytest.raises(tf.errors.OpError):
        second.reduce("SUM", tf.constant([1.0, 1.0]), axis=None)


def _after(subject: Subject, call: Callable[[], Any]) -> bool:
    """Whether the strategy is refused after a call."""
    call()
    with pytest.raises(RuntimeError, match=TOO_LATE):
        subject.make_strategy()
    return True


def _in_a_copy(check: Callable[[], bool]) -> bool:
    """Whether a check holds in a copy of this process, which is as unused as this one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the copy has no other threads
        pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1] == 0
    held = False
    try:
        held = check()
    finally:
        os._exit(0 if held else 1)
