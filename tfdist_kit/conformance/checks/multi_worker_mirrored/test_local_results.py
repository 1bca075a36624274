"""Strategy.experimental_local_results: the values of this worker's replicas."""

from __future__ import annotations

import inspect

import pytest

from tfdist_kit.conformance.checks.multi_worker_mirrored._common import both, make
from tfdist_kit.conformance.checks.multi_worker_mirrored._values import held
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject
from tfdist_kit.testing.worker import Worker

pytestmark = pytest.mark.tfdist(workers=2, timeout=60)


@claim("mwms.local-results.signature")
def test_signature(subject: Subject) -> None:
    strategy = subject.make_strategy_v1()
    [value] = inspect.signature(strategy.experimental_local_results).parameters.values()
    assert (value.name, value.default) == ("value", inspect.Parameter.empty)


@claim("mwms.local-results.every-local-replica")
@pytest.mark.tfdist(local_replicas=2)
@both
def test_every_local_replica(subject: Subject, api: str, tf_worker: Worker) -> None:
    strategy = make(subject, api)
    results = strategy.experimental_local_results(held(strategy, lambda replica: 5 * replica))
    first = 10 * tf_worker.rank
    assert [int(each) for each in results] == [first, first + 5]


@claim("mwms.local-results.this-worker-alone")
@both
def test_this_worker_alone(subject: Subject, api: str, tf_worker: Worker) -> None:
    strategy = make(subject, api)
    results = strategy.experimental_local_results(held(strategy, lambda replica: 5 * replica))
    assert [int(each) for each in results] == [5 * tf_worker.rank]


@claim("mwms.local-results.plain-value")
def test_plain_value(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy_v1()
    for value in (tf.constant(7), 7, "seven"):
        [result] = strategy.experimental_local_results(value)
        assert result is value
