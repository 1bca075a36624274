"""enqueue: the output shapes that it infers from its features."""

from __future__ import annotations

import pytest

from tfdist_kit.conformance.checks.tpu_embedding._features import (
    dense,
    output_shape,
    ragged,
    sparse,
    ways,
)
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject

pytestmark = pytest.mark.tfdist(workers=1, timeout=60)


@ways
@claim("tpu.enqueue.dense-last-dimension")
def test_dense_last_dimension(subject: Subject, way: str) -> None:
    for shape in ((4, 2), (4, 1, 2)):
        with pytest.raises(ValueError, match="last dimension"):
            output_shape(subject, dense(*shape), way=way)


@ways
@claim("tpu.enqueue.dense-shape")
def test_dense(subject: Subject, way: str) -> None:
    assert output_shape(subject, dense(4, 1), way=way) == (4,)
    assert output_shape(subject, dense(4, 3, 1), way=way) == (4, 3)


@ways
@claim("tpu.enqueue.sparse-rank")
def test_sparse_rank(subject: Subject, way: str) -> None:
    with pytest.raises(ValueError, match=r"[Rr]ank"):
        output_shape(subject, sparse(4), way=way)


@ways
@claim("tpu.enqueue.sparse-shape")
def test_sparse(subject: Subject, way: str) -> None:
    ids = sparse(4, 5)
    assert output_shape(subject, ids, way=way) == (4,)
    assert output_shape(subject, ids, output_shape=[4], max_sequence_length=2, way=way) == (4,)
    assert output_shape(subject, sparse(4, 3, 5), way=way) == (4, 3)


@ways
@claim("tpu.enqueue.sparse-sequence")
def test_sparse_sequence(subject: Subject, way: str) -> None:
    for width in (5, 2, 1):
        ids = sparse(4, width)
        assert output_shape(subject, ids, max_sequence_length=3, way=way) == (4, 3)


@claim("tpu.enqueue.sparse-sequence-of-higher-rank")
def test_sparse_sequence_of_higher_rank(subject: Subject) -> None:
    shape = output_shape(subject, sparse(4, 2, 5), max_sequence_length=3)
    assert shape == (4, 3), "max_sequence_length is ignored"


@ways
@claim("tpu.enqueue.ragged-shape")
def test_ragged(subject: Subject, way: str) -> None:
    rows = ragged(4, None)
    assert output_shape(subject, rows, way=way) == (4,)
    assert output_shape(subject, rows, output_shape=[4], max_sequence_length=2, way=way) == (4,)


@ways
@claim("tpu.enqueue.ragged-sequence")
def test_ragged_sequence(subject: Subject, way: str) -> None:
    assert output_shape(subject, ragged(4, None), max_sequence_length=3, way=way) == (4, 3)
