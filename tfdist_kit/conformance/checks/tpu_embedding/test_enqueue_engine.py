"""enqueue: what its weights, ids and devices do to the activations of a step that runs."""

from __future__ import annotations

from typing import Any

import pytest

from tfdist_kit.conformance.checks.tpu_embedding import _engine, _steps
from tfdist_kit.conformance.checks.tpu_embedding._configs import counted, feature, table
from tfdist_kit.conformance.checks.tpu_embedding._traced import sgd
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject

pytestmark = pytest.mark.tfdist(workers=1, timeout=60)

IDS, WEIGHTS = [[1, 2], [5], []], [[3.0, 1.0], [0.5], []]
COMBINED = {"sum": [5.0, 2.5, 0.0], "mean": [1.25, 5.0, 0.0], "sqrtn": [5.0 / 10**0.5, 5.0, 0.0]}
"""The weighted rows of a table whose row ``i`` is ``i``."""


@claim("tpu.enqueue.weights-scale")
def test_weights_scale(subject: Subject) -> None:
    import numpy as np
    import tensorflow as tf

    strategy = _engine.strategy()
    config = {
        name: feature(table(_steps.ROWS, 1, combiner=name, initializer=counted(_steps.ROWS, 1)))
        for name in COMBINED
    }
    with strategy.scope():
        embedding = subject.make_embedding(config, sgd())
    of = tf.ragged.constant
    ids = {"sum": of(IDS, tf.int64), "mean": of(IDS), "sqrtn": of(IDS)}
    found = _engine.looked_up(strategy, embedding, ids, dict.fromkeys(ids, of(WEIGHTS)))
    for name, right in COMBINED.items():
        np.testing.assert_allclose(found[name][:, 0], right, rtol=1e-6, err_msg=name)


@claim("tpu.enqueue.per-core")
@pytest.mark.tfdist(local_replicas=2)
def test_per_core(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    embedding = _steps.embedding_of(subject, strategy)
    batches = [
        {name: tf.constant(ids) for name, ids in _steps.ids_of(core).items()} for core in range(2)
    ]

    def per_core_enqueue(context: Any) -> int:
        core = context.replica_id_in_sync_group
        device = strategy.extended.worker_devices[core]
        embedding.enqueue(batches[core], training=False, device=device)
        return 0

    strategy.experimental_distribute_values_from_function(per_core_enqueue)
    found = strategy.experimental_local_results(strategy.run(embedding.dequeue))
    firsts = [[row[0] for row in each["a"].numpy().tolist()] for each in found]
    assert firsts == [[0.0, 1.0], [1.0, 1.0]]


@claim("tpu.enqueue.ids-out-of-range")
def test_ids_out_of_range(subject: Subject) -> None:
    import tensorflow as tf

    strategy = _engine.strategy()
    embedding = _steps.embedding_of(subject, strategy)
    for wrong in (-1, _steps.ROWS):
        with pytest.raises(tf.errors.InvalidArgumentError):
            _engine.looked_up(
                strategy, embedding, {name: tf.constant([[wrong]]) for name in _steps.SCALES}
            )
