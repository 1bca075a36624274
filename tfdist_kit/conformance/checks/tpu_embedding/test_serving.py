"""Lookups in the tables without an engine, for serving."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tfdist_kit.conformance.checks.tpu_embedding import _numbers, _saving
from tfdist_kit.conformance.checks.tpu_embedding._numbers import Feature
from tfdist_kit.conformance.checks.tpu_embedding._saving import config, fill, optimizer
from tfdist_kit.conformance.checks.tpu_embedding._traced import sgd, traced
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject

pytestmark = pytest.mark.tfdist(workers=1, timeout=60)

IDS = [[3, 1, 3], [], [0], [4, 2]]
WEIGHTS = [[0.5, 2.0, 1.0], [], [3.0], [1.0, 0.25]]


def _ragged(rows: Any, dtype: Any) -> Any:
    import tensorflow as tf

    return tf.ragged.constant(rows, dtype=dtype, row_splits_dtype=tf.int64)


def _looked_up(subject: Subject, ids: Any, weights: Any = None, **feature: Any) -> Any:
    """What serving gives for one feature of a filled table, and that table's values."""
    features = config(**feature)
    made = subject.make_embedding(features, optimizer("SGD"))
    table = np.array(fill(made)["parameters"])
    given = None if weights is None else {"watched": weights}
    found = subject.serving_lookup({"watched": ids}, given, made, features)
    return found["watched"].numpy(), table


@claim("tpu.serving.same-as-lookup")
@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
def test_same_as_lookup(subject: Subject, combiner: str) -> None:
    import tensorflow as tf

    ids, weights = _ragged(IDS, tf.int64), _ragged(WEIGHTS, tf.float32)
    for weighted in (False, True):
        given = weights if weighted else None
        for name, made in (("ragged", [ids, given]), ("sparse", [_sparse(ids), _sparse(given)])):
            found, table = _looked_up(subject, *made, combiner=combiner)
            feature = Feature("video", IDS, WEIGHTS if weighted else None, combiner)
            wanted = _numbers.looked_up(feature, table)
            assert found == pytest.approx(wanted, rel=1e-5), (name, weighted)


def _sparse(ragged: Any) -> Any:
    return None if ragged is None else ragged.to_sparse()


@claim("tpu.serving.dense-shape")
def test_dense_shape(subject: Subject) -> None:
    import tensorflow as tf

    found, table = _looked_up(subject, tf.constant([[3], [1], [0], [4]], tf.int64))
    assert found.shape == (4, _saving.DIM), f"the shape is {found.shape}"
    assert found.tolist() == table[[3, 1, 0, 4]].tolist()


@claim("tpu.serving.options-of-the-tpu")
def test_sequences_are_combined(subject: Subject) -> None:
    import tensorflow as tf

    found, _ = _looked_up(subject, _ragged(IDS, tf.int64), max_sequence_length=2)
    told = "padded and cut" if found.shape == (4, 2, _saving.DIM) else "of another shape"
    assert found.shape == (4, _saving.DIM), f"the sequences are {told}"


@claim("tpu.serving.options-of-the-tpu")
def test_dense_ids_of_a_sequence(subject: Subject) -> None:
    import tensorflow as tf

    ids = tf.constant([[3], [1], [0], [4]], tf.int64)
    assert len(_looked_up(subject, ids, max_sequence_length=2)[0]) == 4


@claim("tpu.serving.weights-of-sequences")
def test_weights_of_sequences(subject: Subject) -> None:
    import tensorflow as tf

    ids, weights = _ragged(IDS, tf.int64), _ragged(WEIGHTS, tf.float32)
    found, _ = _looked_up(subject, ids, weights, max_sequence_length=2)
    assert found.shape == (4, 2, _saving.DIM)


@claim("tpu.serving.weights-below-zero")
def test_weights_below_zero(subject: Subject) -> None:
    import tensorflow as tf

    ids, weights = _ragged([[3, 1]], tf.int64), _ragged([[-1.0, 2.0]], tf.float32)
    found, table = _looked_up(subject, _sparse(ids), _sparse(weights), combiner="mean")
    told = "dropped" if found[0].tolist() == table[1].tolist() else f"in {found}"
    wanted = 2.0 * table[1] - table[3]
    assert found[0] == pytest.approx(wanted), f"the id whose weight is -1 is {told}"


@claim("tpu.serving.subset")
def test_subset(subject: Subject) -> None:
    import tensorflow as tf

    kinds = tf.tpu.experimental.embedding
    features = {**config(), "liked": kinds.FeatureConfig(kinds.TableConfig(4, 3, name="film"))}
    made = subject.make_embedding(features, optimizer("SGD"))
    table = np.array(fill(made)["parameters"])
    ids = tf.constant([2, 4], tf.int64)
    found = subject.serving_lookup({"watched": ids}, None, made, features)
    assert list(found) == ["watched"]
    assert found["watched"].numpy().tolist() == table[[2, 4]].tolist()
    with pytest.raises(ValueError, match="another"):
        subject.serving_lookup({"another": ids}, None, made, features)


@claim("tpu.serving.for-serving")
def test_for_serving() -> None:
    import tensorflow as tf

    made = _saving.for_serving(optimizer("SGD"))
    table = np.array(fill(made)["parameters"])
    found = made({"watched": tf.constant([2, 4], tf.int64)})
    assert found["watched"].numpy().tolist() == table[[2, 4]].tolist()
    with (
        traced() as strategy,
        strategy.scope(),
        pytest.raises(RuntimeError, match="Serving on TPU is not yet supported"),
    ):
        _saving.for_serving(sgd())
