"""Which shapes features can have, and where their output shapes come from."""

from __future__ import annotations

import pytest

from tfdist_kit.conformance.checks.tpu_embedding._features import (
    HOST,
    TRACED,
    dense,
    feature,
    output_shape,
    output_shapes,
    ragged,
    sparse,
    value,
    ways,
)
from tfdist_kit.conformance.checks.tpu_embedding._traced import sgd
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import ADAPTER, Subject

pytestmark = pytest.mark.tfdist(workers=1, timeout=60)


@ways
@claim("tpu.shapes.dense-and-sparse")
def test_ranks_from_two_up(subject: Subject, way: str) -> None:
    for shape in ((4, 1), (4, 2, 1), (4, 2, 3, 1)):
        assert output_shape(subject, dense(*shape), way=way) == shape[:-1]
        assert output_shape(subject, sparse(*shape[:-1], 5), way=way) == shape[:-1]


@ways
@claim("tpu.shapes.dense-rank-one")
def test_dense_of_rank_one(subject: Subject, way: str) -> None:
    assert output_shape(subject, dense(4), way=way) == (4,)


@claim("tpu.shapes.ragged-rank")
def test_ragged_of_another_rank(subject: Subject) -> None:
    with pytest.raises(ValueError, match="rank 3"):
        output_shape(subject, ragged(4, None, None))


@ways
@claim("tpu.shapes.ragged-output-shape")
def test_ragged_to_other_ranks(subject: Subject, way: str) -> None:
    for shape in ((4,), (2, 2), (4, 3), (2, 2, 1)):
        assert output_shape(subject, ragged(4, None), output_shape=shape, way=way) == shape


@ways
@claim("tpu.shapes.priority")
def test_priority(subject: Subject, way: str) -> None:
    rows, middle, first = ragged(4, None), (2, 2), (2, 2, 3)
    assert output_shape(subject, rows, build=(*middle, 1), output_shape=first, way=way) == first
    assert output_shape(subject, rows, build=(*middle, 1), way=way) == middle


@claim("tpu.shapes.without-last-dimension")
def test_without_the_last_dimension(subject: Subject) -> None:
    assert output_shape(subject, build=(4, 2, 1)) == (4, 2)
    assert output_shape(subject, build=(4, 2, 7)) == (4, 2)
    assert output_shape(subject, sparse(4, 2, 7)) == (4, 2)


@ways
@claim("tpu.shapes.conflict")
def test_conflict(subject: Subject, way: str) -> None:
    with pytest.raises(ValueError, match="shape"):
        output_shape(subject, sparse(4, 5), output_shape=[3], way=way)
    with pytest.raises(ValueError, match="shape"):
        output_shape(subject, sparse(4, 5), build=(3, 5), way=way)
    with pytest.raises(ValueError, match="shape"):
        output_shape(subject, sparse(3, 5), build=(4, 5), output_shape=[3], way=way)


@ways
@claim("tpu.shapes.unset")
def test_unset(subject: Subject, way: str) -> None:
    config = {"set": feature(output_shape=[2, 2]), "unset": feature()}
    inputs = {"set": ragged(4, None), "unset": sparse(4, 5)}
    assert output_shapes(subject, config, inputs, way=way) == {"set": (2, 2), "unset": (4,)}


@claim("tpu.shapes.partly-set")
def test_partly_set(subject: Subject) -> None:
    assert output_shape(subject, sparse(4, 5), output_shape=[None]) == (4,)


@claim("tpu.shapes.empty")
def test_empty(subject: Subject) -> None:
    try:
        shape = output_shape(subject, sparse(4, 5), output_shape=[])
    except ValueError as error:
        pytest.fail(f"an empty output_shape is refused: {error}")
    assert shape == (4,)


@claim("tpu.shapes.sparse-is-not-reshaped")
def test_sparse_is_not_reshaped(subject: Subject) -> None:
    way = HOST if subject.kind == ADAPTER else TRACED
    try:
        output_shape(subject, sparse(4, 5), output_shape=[2, 2], way=way)
    except ValueError:
        return
    pytest.fail("a sparse feature was reshaped")


@ways
@claim("tpu.shapes.later-calls")
def test_later_calls(subject: Subject, way: str) -> None:
    assert output_shape(subject, sparse(4, 5), sparse(4, 7), way=way) == (4,)
    with pytest.raises(ValueError, match="shape"):
        output_shape(subject, sparse(4, 5), sparse(3, 5), way=way)


@claim("tpu.shapes.not-inferable")
def test_not_inferable(subject: Subject) -> None:
    unknown = sparse(None, 5)
    with pytest.raises(ValueError, match=r"FeatureConfig or for the build method"):
        output_shape(subject, unknown)
    assert output_shape(subject, unknown, build=(4, 5)) == (4,)
    assert output_shape(subject, unknown, output_shape=[4]) == (4,)


@claim("tpu.shapes.ragged-elements")
def test_ragged_elements() -> None:
    import tensorflow as tf

    config = feature(output_shape=[2, 2])
    rows = tf.ragged.constant([[0], [1, 2, 3, 4]], tf.int64)
    tables = {config.table: tf.Variable(tf.ones([6, 3]))}
    try:
        tf.tpu.experimental.embedding.serving_embedding_lookup(rows, None, tables, config)
    except (ValueError, tf.errors.InvalidArgumentError):
        return
    pytest.fail("rows of other lengths were taken")


@claim("tpu.shapes.without-a-tpu")
def test_without_a_tpu(subject: Subject) -> None:
    inputs = {"d": dense(4, 1), "r": ragged(4, None), "s": sparse(4, 2, 5)}
    config = {"d": feature(), "r": feature(max_sequence_length=2), "s": feature()}
    alone = subject.make_embedding(config, sgd())
    values = {name: value(spec) for name, spec in inputs.items()}
    shapes = alone._get_output_shapes_from_input_shapes(
        alone._get_input_shapes(values, per_replica=True, in_tpu_context=False)
    )
    assert [tuple(one) for one in shapes] == list(output_shapes(subject, config, inputs).values())
