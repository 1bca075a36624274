"""The two modes: under a TPUStrategy, and anywhere else."""

from __future__ import annotations

from typing import Any

import pytest

from tfdist_kit.conformance.checks.tpu_embedding._configs import (
    counted,
    created,
    feature,
    kit,
    names,
    table,
)
from tfdist_kit.conformance.checks.tpu_embedding._engine import tpu_strategy
from tfdist_kit.conformance.checks.tpu_embedding._traced import sgd, traced
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import ADAPTER, Subject

pytestmark = pytest.mark.tfdist(workers=1, timeout=60)


def outside(subject: Subject) -> Any:
    """An embedding outside of a TPUStrategy, where the kit has more to offer than the page."""
    if subject.kind == ADAPTER:
        pytest.skip("the kit's host mode has the step outside of a TPUStrategy, too")
    embedding = subject.make_embedding({"f": feature()}, kit().SGD(0.1))
    embedding.build()
    return embedding


@claim("tpu.modes.by-the-scope")
def test_by_the_scope(subject: Subject) -> None:
    with traced() as strategy:
        with strategy.scope():
            under = subject.make_embedding(feature(), sgd())
        other = subject.make_embedding(feature(), sgd())
        with pytest.raises(RuntimeError, match="TPU"):
            _ = under.embedding_tables
        with strategy.scope():
            assert len(other.embedding_tables) == 1


@claim("tpu.modes.enqueue-outside")
def test_enqueue_outside(subject: Subject) -> None:
    import tensorflow as tf

    embedding = outside(subject)
    with pytest.raises(RuntimeError, match="TPUStrategy"):
        embedding.enqueue({"f": tf.constant([[1]])}, training=False)


@claim("tpu.modes.dequeue-outside")
def test_dequeue_outside(subject: Subject) -> None:
    embedding = outside(subject)
    with pytest.raises(RuntimeError, match="TPUStrategy"):
        embedding.dequeue()


@claim("tpu.modes.apply-gradients-outside")
def test_apply_gradients_outside(subject: Subject) -> None:
    import tensorflow as tf

    embedding = outside(subject)
    with pytest.raises(RuntimeError, match="TPUStrategy"):
        embedding.apply_gradients({"f": tf.zeros((1, 2))})


@claim("tpu.modes.tables")
def test_tables(subject: Subject) -> None:
    import tensorflow as tf

    user, video = table(4, 2, name="user"), table(6, 3, name="video")
    embedding = subject.make_embedding([feature(user), feature(video)], kit().SGD(0.1))
    found = embedding.embedding_tables
    assert set(found) == {user, video}
    assert {each.name: tuple(one.shape) for each, one in found.items()} == {
        "user": (4, 2),
        "video": (6, 3),
    }
    assert all(isinstance(one, tf.Variable) for one in found.values())


@claim("tpu.modes.tables-under-tpu")
def test_tables_under_tpu(subject: Subject) -> None:
    with traced() as strategy, strategy.scope():
        embedding = subject.make_embedding(feature(), sgd())
        for _ in range(2):
            with pytest.raises(RuntimeError, match="create this object under a CPU strategy"):
                _ = embedding.embedding_tables
            embedding.build(2)


@claim("tpu.modes.embedding-table")
def test_embedding_table(subject: Subject) -> None:
    embedding = subject.make_embedding(feature(), kit().SGD(0.1))
    assert embedding.embedding_table is not None


@claim("tpu.modes.tables-are-built-when-asked-for")
def test_tables_are_built_when_asked_for(subject: Subject) -> None:
    import tensorflow as tf

    first, second = (subject.make_embedding(feature(), kit().SGD(0.1)) for _ in range(2))
    with created() as before:
        pass
    with created() as found:
        _ = first.embedding_tables
        _ = first.embedding_tables
    assert (names(before), names(found)) == ([], ["user"])

    @tf.function
    def total() -> Any:
        [one] = second.embedding_tables.values()
        return tf.reduce_sum(one)

    result = total()
    [made] = second.embedding_tables.values()
    assert float(result) == pytest.approx(float(tf.reduce_sum(made)))


@claim("tpu.modes.embedding-lookup")
def test_embedding_lookup(subject: Subject) -> None:
    import tensorflow as tf

    config = table(4, 2, initializer=counted(4, 2))
    [variable] = subject.make_embedding(feature(config), kit().SGD(0.1)).embedding_tables.values()
    rows = tf.nn.embedding_lookup(variable, tf.constant([[3, 0], [1, 1]]))
    assert rows.numpy()[..., 1].tolist() == [[3.0, 0.0], [1.0, 1.0]]
    ids = tf.sparse.from_dense([[3, 0], [1, 2]])
    sums = tf.nn.embedding_lookup_sparse(variable, ids, None, combiner="sum")
    assert sums.numpy().tolist() == [[3.0, 3.0], [3.0, 3.0]]


@claim("tpu.modes.slots-are-not-trainable")
def test_slots_are_not_trainable(subject: Subject) -> None:
    with created() as found:
        subject.make_embedding(feature(), kit().Adam(0.1)).build()
    trainable = dict(zip(names(found), [one.trainable for one in found], strict=True))
    assert trainable == {"user": True, "user/momenta": False, "user/velocities": False}


@claim("tpu.modes.mirrored-tables")
def test_mirrored_tables(subject: Subject) -> None:
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    with strategy.scope():
        embedding = subject.make_embedding(feature(), kit().SGD(0.1))
    [made] = embedding.embedding_tables.values()
    assert repr(made).startswith("MirroredVariable"), f"the table is a {type(made).__name__}"


@claim("tpu.modes.called")
def test_called(subject: Subject) -> None:
    embedding = subject.make_embedding(feature(), kit().SGD(0.1))
    assert callable(embedding), "the object cannot be called"


@claim("tpu.note.any-number-outside")
def test_any_number_outside(subject: Subject) -> None:
    user = [subject.make_embedding(feature(), kit().SGD(0.1)) for _ in range(3)]
    for one in user:
        one.build()
    made = [next(iter(one.embedding_tables.values())) for one in user]
    made[0].assign(made[0] * 0.0)
    made[1].assign(made[0] + 1.0)
    assert [float(one[0, 0]) for one in made[:2]] == [0.0, 1.0]


@claim("tpu.note.one-instance")
def test_one_instance(subject: Subject) -> None:
    strategy = tpu_strategy()
    with strategy.scope():
        first, second = (subject.make_embedding(feature(), sgd()) for _ in range(2))
        first.build(2)
        with pytest.raises(RuntimeError, match="already initialized"):
            second.build(2)
    strategy = tpu_strategy()
    with strategy.scope():
        subject.make_embedding(feature(), sgd()).build(2)


@claim("tpu.note.variables-are-cleared")
def test_variables_are_cleared() -> None:
    import tensorflow as tf

    strategy = tpu_strategy()
    with strategy.scope():
        variable = tf.Variable(1.0)
    tpu_strategy()
    with pytest.raises(tf.errors.OpError):
        variable.numpy()
