"""What the configuration of a feature accepts, and what comes of it."""

from __future__ import annotations

from typing import Any

import pytest

from tfdist_kit.conformance.checks.tpu_embedding._configs import counted, feature, kit, table
from tfdist_kit.conformance.checks.tpu_embedding._engine import looked_up, strategy
from tfdist_kit.conformance.checks.tpu_embedding._traced import sgd, traced
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject

pytestmark = pytest.mark.tfdist(workers=1, timeout=60)


def activation_shape(subject: Subject, input_shape: list[int], **arguments: Any) -> list[int]:
    """The shape of what is dequeued for a feature, after a build for an input of a shape."""
    import tensorflow as tf

    with traced() as under:
        with under.scope():
            embedding = subject.make_embedding({"f": feature(**arguments)}, sgd())
            embedding.build({"f": tf.TensorShape(input_shape)})
        found: list[Any] = []

        @tf.function
        def step() -> None:
            under.run(lambda: found.append(embedding.dequeue()["f"].shape.as_list()))

        step.get_concrete_function()
    shape: list[int] = found[0]
    return shape


@claim("tpu.feature-config.table")
def test_table() -> None:
    for wrong in (None, "user", {"vocabulary_size": 4, "dim": 2}):
        with pytest.raises(ValueError, match="table"):
            kit().FeatureConfig(table=wrong)


@claim("tpu.feature-config.max-sequence-length")
def test_max_sequence_length() -> None:
    assert feature().max_sequence_length == 0
    assert feature(max_sequence_length=3).max_sequence_length == 3
    for wrong in (-1, 2.0, "2", None):
        with pytest.raises(ValueError, match="max_sequence_length"):
            feature(max_sequence_length=wrong)


@claim("tpu.feature-config.validate-weights-and-indices")
def test_validate_weights_and_indices() -> None:
    assert feature().validate_weights_and_indices is True
    assert feature(validate_weights_and_indices=False).validate_weights_and_indices is False
    for wrong in (1, None, "yes"):
        with pytest.raises(ValueError, match="validate_weights_and_indices"):
            feature(validate_weights_and_indices=wrong)


@claim("tpu.feature-config.output-shape")
def test_output_shape(subject: Subject) -> None:
    import tensorflow as tf

    for shape in ([2, 3], tf.TensorShape([2, 3])):
        assert activation_shape(subject, [2, 3, 5], output_shape=shape) == [2, 3, 2]


@claim("tpu.feature-config.sequences")
def test_sequences(subject: Subject) -> None:
    import tensorflow as tf

    rows = table(5, 1, combiner="sum", name="user", initializer=counted(5, 1))
    config = {"f": feature(rows, max_sequence_length=2)}
    under = strategy()
    with under.scope():
        embedding = subject.make_embedding(config, kit().SGD(0.1))
    ids = tf.ragged.constant([[1, 2, 3], [4], []], dtype=tf.int64)
    for batch in (ids, ids.to_sparse()):
        found = looked_up(under, embedding, {"f": batch})["f"]
        assert found[..., 0].tolist() == [[1.0, 2.0], [4.0, 0.0], [0.0, 0.0]]


@claim("tpu.feature-config.max-sequence-length-is-ignored")
def test_max_sequence_length_is_ignored(subject: Subject) -> None:
    assert activation_shape(subject, [2, 5], max_sequence_length=3) == [2, 3, 2]
    assert activation_shape(subject, [2, 4, 5], max_sequence_length=3) == [2, 4, 2]
    assert activation_shape(subject, [2, 5], max_sequence_length=3, output_shape=[2]) == [2, 2]
