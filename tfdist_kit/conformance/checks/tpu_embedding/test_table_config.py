"""What the configuration of a table accepts, and what is made of it."""

from __future__ import annotations

from typing import Any

import pytest

from tfdist_kit.conformance.checks.tpu_embedding._configs import feature, kit, table
from tfdist_kit.conformance.checks.tpu_embedding._sharded import sharded
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject

pytestmark = pytest.mark.tfdist(workers=1, timeout=60)


def made(subject: Subject, config: Any) -> Any:
    """The table that is made of a configuration."""
    [one] = subject.make_embedding(feature(config), kit().SGD(0.1)).embedding_tables.values()
    return one


@claim("tpu.table-config.vocabulary-size")
def test_vocabulary_size() -> None:
    import numpy as np

    for wrong in (0, -1, 8.0, "8", np.int64(8), None):
        with pytest.raises(ValueError, match="vocabulary_size"):
            table(rows=wrong)
    assert table(rows=8).vocabulary_size == 8


@claim("tpu.table-config.vocabulary-size-true")
def test_vocabulary_size_true(subject: Subject) -> None:
    with pytest.raises(ValueError, match="vocabulary_size"):
        subject.make_embedding(feature(table(rows=True)), kit().SGD(0.1))


@claim("tpu.table-config.dim")
def test_dim() -> None:
    import numpy as np

    for wrong in (0, -1, 8.0, "8", np.int64(8), None):
        with pytest.raises(ValueError, match="dim"):
            table(dim=wrong)
    assert table(dim=8).dim == 8


@claim("tpu.table-config.initializer-not-callable")
def test_initializer_not_callable() -> None:
    for wrong in ("zeros", 0.0):
        with pytest.raises(ValueError, match="initializer"):
            table(initializer=wrong)


@claim("tpu.table-config.initializer-class")
def test_initializer_class(subject: Subject) -> None:
    import tensorflow as tf

    config = table(initializer=tf.keras.initializers.Zeros)
    with pytest.raises(ValueError, match="initializer"):
        subject.make_embedding(feature(config), kit().SGD(0.1))


@claim("tpu.table-config.initializer-of-one-parameter")
def test_initializer_of_one_parameter(subject: Subject) -> None:
    import tensorflow as tf

    one = made(subject, table(initializer=lambda shape: tf.ones(shape)))
    assert one.numpy().tolist() == [[1.0, 1.0]] * 4


@claim("tpu.table-config.default-initializer")
def test_default_initializer(subject: Subject) -> None:
    values = made(subject, table(rows=4000, dim=4)).numpy()
    deviation = 0.5  # 1 / sqrt(4); values beyond two of them are drawn again
    assert abs(values).max() <= 2 * deviation
    assert abs(values.mean()) < 0.02
    assert values.std() == pytest.approx(0.88 * deviation, rel=0.05)


@claim("tpu.table-config.initializer-of-a-shard")
def test_initializer_of_a_shard(subject: Subject) -> None:
    import tensorflow as tf

    shapes: list[tuple[int, ...]] = []

    def ones(shape: Any, dtype: Any = None, **_: Any) -> Any:
        shapes.append(tuple(shape))
        return tf.ones(shape, dtype or tf.float32)

    with sharded(hosts=2):
        subject.make_embedding(feature(table(rows=5, initializer=ones)), kit().SGD(0.1)).build()
    assert shapes == [(3, 2), (2, 2)]


@claim("tpu.table-config.row-ids")
def test_row_ids(subject: Subject) -> None:
    config = feature(table(rows=5, initializer=kit().RowIdInitializer()))
    whole = subject.make_embedding(config, kit().SGD(0.1)).embedding_tables
    assert [one.numpy()[:, 0].tolist() for one in whole.values()] == [[0, 1, 2, 3, 4]]
    with sharded(hosts=2):
        cut = subject.make_embedding(config, kit().SGD(0.1)).embedding_tables
    ids = [int(row) for one in cut.values() for shard in one.variables for row in shard[:, 0]]
    assert ids == [0, 1, 2, 3, 4], f"the ids of the rows are {ids}"


@claim("tpu.table-config.combiner")
def test_combiner() -> None:
    rights = ["mean", "sum", "sqrtn"]
    if hasattr(kit(), "CustomCombiner"):  # the oldest versions have none
        rights.append(kit().CustomCombiner(lambda *_: None, 1))
    for right in rights:
        assert table(combiner=right).combiner is right
    assert table().combiner == "mean"
    for wrong in ("max", "MEAN", None, sum):
        with pytest.raises(ValueError, match="combiner"):
            table(combiner=wrong)


@claim("tpu.table-config.dtype")
def test_dtype() -> None:
    import tensorflow as tf

    if not hasattr(table(), "dtype"):
        pytest.skip("TableConfig has no dtype in this version of TensorFlow")
    assert table().dtype == tf.float32
    assert [table(dtype=each).dtype for each in (tf.float32, tf.int32)] == [tf.float32, tf.int32]
    for wrong in (tf.float16, tf.bfloat16, tf.float64, tf.int64):
        with pytest.raises(ValueError, match="dtype"):
            table(dtype=wrong)


@claim("tpu.table-config.optimizer-is-not-looked-at")
def test_optimizer_is_not_looked_at() -> None:
    assert table(optimizer="sgd").optimizer == "sgd"


@claim("tpu.table-config.repr")
def test_repr() -> None:
    assert "initializer=None" in repr(table())
    assert "initializer=<function" in repr(table(initializer=lambda *_: None))
