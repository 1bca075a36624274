"""Strategy.experimental_run, which is deprecated: run with the next batch of an iterator."""

from __future__ import annotations

import inspect
import logging
from typing import Any

import pytest

from tfdist_kit.conformance.checks.multi_worker_mirrored._graph import graph, session
from tfdist_kit.conformance.checks.multi_worker_mirrored._values import here
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject
from tfdist_kit.testing.worker import Worker

pytestmark = pytest.mark.tfdist(workers=2, timeout=60)


@claim("mwms.experimental-run.signature")
def test_signature(subject: Subject) -> None:
    parameters = inspect.signature(subject.make_strategy_v1().experimental_run).parameters
    assert list(parameters) == ["fn", "input_iterator"]
    assert parameters["fn"].default is inspect.Parameter.empty
    assert parameters["input_iterator"].default is None


@claim("mwms.experimental-run.deprecated")
def test_deprecated(subject: Subject, caplog: pytest.LogCaptureFixture) -> None:
    strategy = subject.make_strategy_v1()
    with caplog.at_level(logging.WARNING, logger="tensorflow"):
        strategy.experimental_run(lambda: 1.0)
    told = [record.getMessage() for record in caplog.records]
    assert any("experimental_run" in text and "deprecated" in text for text in told), told


@claim("mwms.experimental-run.eager")
def test_eager(subject: Subject, tf_worker: Worker) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()
    ran = []

    def fn() -> Any:
        ran.append(int(tf.distribute.get_replica_context().replica_id_in_sync_group))
        return tf.constant(ran[0] + 0.5)

    result = strategy.experimental_run(fn)
    assert ran == [tf_worker.rank]
    assert here(strategy, result) == [tf_worker.rank + 0.5]


@claim("mwms.experimental-run.one-input-a-replica")
def test_one_input_a_replica(subject: Subject, tf_worker: Worker) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()
    iterator = strategy.make_dataset_iterator(tf.data.Dataset.range(16).batch(4))
    iterator.initializer  # noqa: B018
    parts = [strategy.experimental_run(lambda x: x + 0, iterator) for _ in range(2)]
    mine = 2 * tf_worker.rank
    got = [here(strategy, part)[0].tolist() for part in parts]
    assert got == [[mine, mine + 1], [4 + mine, 5 + mine]]


@claim("mwms.experimental-run.graph")
@pytest.mark.tfdist(local_replicas=2)
def test_graph(subject: Subject, tf_worker: Worker) -> None:
    import tensorflow as tf

    with graph(subject) as strategy:
        runs = []

        def fn() -> Any:
            runs.append(tf.random.uniform([]))
            return 7.0 + runs[-1] * 0.0

        result = strategy.experimental_local_results(strategy.experimental_run(fn))
        assert len(runs) == 2
        assert len(result) == 2
        assert result[0] is not result[1]
        assert all(each.graph is tf.compat.v1.get_default_graph() for each in result)
        with session(strategy) as sess:
            assert sess.run(result) == (7.0, 7.0)


@claim("mwms.experimental-run.replica-context")
def test_replica_context(subject: Subject, tf_worker: Worker) -> None:
    import tensorflow as tf

    def fn() -> Any:
        return tf.identity(tf.distribute.get_replica_context().replica_id_in_sync_group)

    with graph(subject) as strategy:
        result = strategy.experimental_local_results(strategy.experimental_run(fn))
        with session(strategy) as sess:
            assert sess.run(result) == (tf_worker.rank,)
