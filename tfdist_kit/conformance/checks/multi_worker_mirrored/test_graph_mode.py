"""The strategy in graph mode, alone and with a server on each worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tfdist_kit.conformance.checks.multi_worker_mirrored._graph_cluster import graph_of
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject
from tfdist_kit.testing import Worker

pytestmark = pytest.mark.tfdist(workers=2, timeout=60)
alone = pytest.mark.tfdist(workers=1)


@claim("mwms.graph-mode.alone")
@alone
def test_run_and_reduce_alone(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    import tensorflow as tf

    monkeypatch.delenv("TF_CONFIG")
    for make in (subject.make_strategy_v1, subject.make_strategy):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            strategy = make()
            number = tf.compat.v1.placeholder(tf.float32)
            doubled = strategy.run(lambda x: 2.0 * x, args=(number,))
            total = strategy.reduce("SUM", doubled, axis=None)
            assert isinstance(total, tf.Tensor)
            assert session.run(total, {number: 3.0}) == 6.0


@claim("mwms.graph-mode.servers")
@pytest.mark.parametrize("v1", [True, False], ids=["v1", "v2"])
def test_an_all_reduce_between_sessions(
    subject: Subject, tf_worker: Worker, tmp_path: Path, v1: bool
) -> None:
    import tensorflow as tf

    with graph_of(subject, tf_worker, tmp_path, v1=v1) as graph:
        total = graph.strategy.run(
            lambda: tf.distribute.get_replica_context().all_reduce(
                "SUM", tf.constant(tf_worker.rank + 1.0)
            )
        )
        with graph.session() as session:
            assert session.run(total) == 3.0


@claim("mwms.graph-mode.same-initial-values")
def test_variables_start_with_the_first_workers_value(
    subject: Subject, tf_worker: Worker, tmp_path: Path
) -> None:
    import tensorflow as tf

    with graph_of(subject, tf_worker, tmp_path) as graph:
        with graph.strategy.scope():
            variable = tf.Variable(tf_worker.rank + 10.0)
        with graph.session() as session:
            assert session.run(variable.read_value()) == 10.0


@claim("mwms.graph-mode.gradients-are-summed")
def test_an_optimizer_adds_the_gradients_up(
    subject: Subject, tf_worker: Worker, tmp_path: Path
) -> None:
    with graph_of(subject, tf_worker, tmp_path) as graph:
        weight, step = _training(graph.strategy, tf_worker.rank + 1.0)
        with graph.session() as session:
            session.run(step)
            assert session.run(weight.read_value()) == 1.0 - (1.0 + 2.0)


@claim("mwms.graph-mode.monitored-session")
def test_training_in_a_monitored_session(
    subject: Subject, tf_worker: Worker, tmp_path: Path
) -> None:
    import tensorflow as tf

    with graph_of(subject, tf_worker, tmp_path) as graph:
        weight, step = _training(graph.strategy, tf_worker.rank + 1.0)
        value = weight.read_value()
        with tf.compat.v1.train.MonitoredTrainingSession(
            graph.target, config=graph.config
        ) as session:
            session.run(step)
            session.run(step)
            assert session.run(value) == 1.0 - 2 * (1.0 + 2.0)


@claim("mwms.graph-mode.does-not-wait")
@pytest.mark.tfdist(workers=1, timeout=20)
def test_the_other_workers_may_come_later(
    subject: Subject, tf_worker: Worker, tmp_path: Path
) -> None:
    absent = "localhost:1"
    (tmp_path / "1.address").write_text(absent, encoding="utf-8")
    two = Worker(rank=0, size=2, task=tf_worker.task)
    with graph_of(subject, two, tmp_path) as graph:
        assert graph.strategy.num_replicas_in_sync == 2
        assert graph.target.startswith("grpc://localhost:")


@claim("mwms.graph-mode.initializable-iterator")
@pytest.mark.tfdist(workers=1, fresh=True)
def test_a_distributed_dataset_needs_an_initializable_iterator(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tensorflow as tf

    monkeypatch.delenv("TF_CONFIG")
    tf.compat.v1.disable_v2_behavior()  # for good: the process is no other check's
    strategy = subject.make_strategy_v1()
    dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.range(4).batch(2))
    with pytest.raises(RuntimeError):
        iter(dataset)
    with pytest.raises(ValueError):
        tf.compat.v1.data.make_one_shot_iterator(dataset)
    iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
    with tf.compat.v1.Session() as session:
        session.run(iterator.initializer)
        assert session.run(iterator.get_next()).tolist() == [0, 1]


def _training(strategy: Any, gradient: float) -> tuple[Any, Any]:
    """A weight of 1, and a step that takes the gradients off it."""
    import tensorflow as tf

    with strategy.scope():
        tf.compat.v1.train.get_or_create_global_step()
        weight = tf.Variable(1.0)
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(1.0)
    step = strategy.run(lambda: optimizer.minimize(lambda: weight * gradient, var_list=[weight]))
    return weight, strategy.experimental_local_results(step)
