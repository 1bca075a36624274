"""Strategy.update_config_proto: what a session needs for collectives."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from tfdist_kit.conformance.checks.multi_worker_mirrored._common import tf_config
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject
from tfdist_kit.testing.worker import Worker

pytestmark = pytest.mark.tfdist(workers=2, timeout=60)


@claim("mwms.config-proto.signature")
def test_signature(subject: Subject) -> None:
    strategy = subject.make_strategy_v1()
    [value] = inspect.signature(strategy.update_config_proto).parameters.values()
    assert (value.name, value.default) == ("config_proto", inspect.Parameter.empty)


def _given() -> Any:
    import tensorflow as tf

    given = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=3, allow_soft_placement=True)
    given.gpu_options.allow_growth = True
    return given


@claim("mwms.config-proto.is-a-copy")
def test_copy(subject: Subject) -> None:
    strategy = subject.make_strategy_v1()
    given = _given()
    updated = strategy.update_config_proto(given)
    assert given == _given()
    assert updated is not given
    assert updated != given
    assert (updated.intra_op_parallelism_threads, updated.allow_soft_placement) == (3, True)
    assert updated.gpu_options.allow_growth


@claim("mwms.config-proto.what-is-set")
def test_what_is_set(subject: Subject, tf_worker: Worker) -> None:
    strategy = subject.make_strategy_v1()
    updated = strategy.update_config_proto(_given())
    assert updated.experimental.collective_group_leader == "/job:worker/replica:0/task:0"
    assert list(updated.device_filters) == [f"/job:worker/task:{tf_worker.rank}"]


@claim("mwms.config-proto.session-without-it")
@pytest.mark.tfdist(fresh=True)  # no server may run there yet
def test_session_without_it(subject: Subject, tf_worker: Worker) -> None:
    import tensorflow as tf

    with tf.Graph().as_default():
        strategy = subject.make_strategy_v1()
        server = tf.compat.v1.train.Server(
            tf_config()["cluster"],
            job_name="worker",
            task_index=tf_worker.rank,
            config=strategy.update_config_proto(tf.compat.v1.ConfigProto()),
        )

        def fn() -> Any:
            context = tf.distribute.get_replica_context()
            return context.all_reduce("SUM", tf.constant(1.0 + tf_worker.rank))

        result = strategy.experimental_local_results(strategy.run(fn))
        with tf.compat.v1.Session(server.target) as sess:
            assert sess.run(result) == (3.0,)
