"""Simulated quantization of what is looked up."""

from __future__ import annotations

from typing import Any

import pytest

from tfdist_kit.conformance.checks.tpu_embedding._configs import feature, kit, table
from tfdist_kit.conformance.checks.tpu_embedding._engine import looked_up, strategy
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject

pytestmark = pytest.mark.tfdist(workers=1, timeout=60)

VALUES = [[-2.0, 0.2], [-0.3, 0.9], [0.6, 3.0]]
QUANTIZED = [[-1.0, 0.0], [-0.5, 1.0], [0.5, 1.0]]  # five buckets from -1 to 1: steps of 0.5
IDS = [[0, 1], [2, 2]]
SUMS = [[-1.5, 1.0], [1.0, 2.0]]


def quantized() -> Any:
    """A feature of a table whose values are not those of its buckets."""
    import tensorflow as tf

    config = kit().QuantizationConfig(num_buckets=5, lower=-1.0, upper=1.0)
    values = tf.constant(VALUES)
    return feature(
        table(
            rows=3,
            combiner="sum",
            name="user",
            quantization_config=config,
            initializer=lambda shape, dtype=None, **_: values,
        )
    )


@claim("tpu.quantization.buckets")
def test_buckets() -> None:
    for wrong in (1, 0, -3):
        with pytest.raises(ValueError, match="num_buckets"):
            kit().QuantizationConfig(num_buckets=wrong, lower=0.0, upper=1.0)
    assert kit().QuantizationConfig(num_buckets=2, lower=0.0, upper=1.0).num_buckets == 2


@claim("tpu.quantization.lookup")
def test_lookup(subject: Subject) -> None:
    import tensorflow as tf

    under = strategy()
    with under.scope():
        embedding = subject.make_embedding({"f": quantized()}, kit().SGD(0.1))
    ids = tf.ragged.constant([[0], [1], [2]], dtype=tf.int64).to_sparse()
    assert looked_up(under, embedding, {"f": ids})["f"].tolist() == QUANTIZED


@claim("tpu.quantization.lookup")
def test_lookup_before_the_combiner(subject: Subject) -> None:
    import tensorflow as tf

    under = strategy()
    with under.scope():
        embedding = subject.make_embedding({"f": quantized()}, kit().SGD(0.1))
    found = looked_up(under, embedding, {"f": tf.ragged.constant(IDS, dtype=tf.int64)})["f"]
    assert found.tolist() == SUMS


@claim("tpu.quantization.serving")
def test_serving(subject: Subject) -> None:
    import tensorflow as tf

    config = {"f": quantized()}
    tables = subject.make_embedding(config, kit().SGD(0.1)).embedding_tables
    inputs = {"f": tf.sparse.from_dense([[1, 1], [2, 0]])}
    found = kit().serving_embedding_lookup(inputs, None, tables, config)["f"].numpy().tolist()
    assert found == [[-1.0, 2.0], [0.5, 1.0]], f"serving gives {found}"
