"""build: variables, shapes, and what the engine is told."""

from __future__ import annotations

import logging
from importlib.metadata import version
from typing import Any

import pytest
from packaging.version import Version

from tfdist_kit.conformance.checks.tpu_embedding._features import (
    dense,
    feature,
    output_shape,
    output_shapes,
    sparse,
    table,
    trace,
)
from tfdist_kit.conformance.checks.tpu_embedding._traced import PLAIN, proto, sgd, traced
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject

pytestmark = pytest.mark.tfdist(workers=1, timeout=60)


def variables(embedding: Any) -> dict[str, Any]:
    """The variables of an embedding, by the names that they are saved under."""
    import tensorflow as tf

    children = tf.train.TrackableView(embedding).children(embedding)
    return {name: one for name, one in children.items() if isinstance(one, tf.Variable)}


def adagrad(**arguments: Any) -> Any:
    """An optimizer with a slot."""
    import tensorflow as tf

    return tf.tpu.experimental.embedding.Adagrad(0.1, **arguments)


@claim("tpu.build.tables-and-slots")
def test_tables_and_slots(subject: Subject) -> None:
    users, films = table(5, 2, name="users"), table(7, 3, name="films", optimizer=sgd())
    config = [feature(users), feature(films), feature(users)]
    embedding = subject.make_embedding(config, adagrad(**PLAIN))
    assert variables(embedding) == {}
    embedding.build()
    shapes = {name: tuple(one.shape) for name, one in variables(embedding).items()}
    assert shapes == {"users": (5, 2), "users/accumulators": (5, 2), "films": (7, 3)}


@claim("tpu.build.twice")
def test_twice(subject: Subject) -> None:
    embedding = subject.make_embedding(feature(), adagrad(**PLAIN))
    embedding.build()
    before = variables(embedding)
    for one in before.values():
        one.assign(one + 1.0)
    values = {name: one.numpy().tolist() for name, one in before.items()}
    embedding.build()
    after = variables(embedding)
    assert all(after[name] is one for name, one in before.items())
    assert {name: one.numpy().tolist() for name, one in after.items()} == values


@claim("tpu.build.without-arguments")
def test_without_arguments(subject: Subject) -> None:
    embedding = subject.make_embedding(feature(), sgd())
    embedding.build()
    [rows] = embedding.embedding_tables.values()
    assert rows.shape == (6, 3)


@claim("tpu.build.shapes-needed")
def test_shapes_needed(subject: Subject) -> None:
    config = {"known": feature(output_shape=[4]), "unknown": feature()}
    with traced() as strategy:
        with strategy.scope():
            embedding = subject.make_embedding(config, sgd())
        with pytest.raises(ValueError, match=r"unknown.*not fully defined"):
            embedding.build()


SEQUENCE = {"ids": (4,), "sequence": (4, 3)}


def built(subject: Subject, *arguments: Any, **named: Any) -> Any:
    """The output shapes of a feature and a sequence after build was called so."""
    import tensorflow as tf

    found: list[Any] = []
    config = {"ids": feature(), "sequence": feature(max_sequence_length=3)}
    with traced() as strategy:
        with strategy.scope():
            embedding = subject.make_embedding(config, sgd())
        embedding.build(*arguments, **named)
        trace(lambda: strategy.run(lambda: found.append(embedding.dequeue())))
    return tf.nest.map_structure(lambda one: tuple(one.shape[:-1]), found[0])


@claim("tpu.build.whole-number")
def test_whole_number(subject: Subject, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "absl"):
        assert built(subject, 4) == SEQUENCE
    assert "will be deprecated" in caplog.text


@claim("tpu.build.batch-size")
def test_batch_size(subject: Subject, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "absl"):
        assert built(subject, per_replica_batch_size=4) == SEQUENCE
    assert "will be deprecated" in caplog.text


@claim("tpu.build.structure")
def test_structure(subject: Subject) -> None:
    import tensorflow as tf

    try:
        built(subject, [tf.TensorShape([4, 5]), tf.TensorShape([4, 5])])
    except (TypeError, ValueError):
        return
    pytest.fail("a list was taken for a dictionary")


@claim("tpu.build.lists-as-shapes")
def test_lists_as_shapes(subject: Subject) -> None:
    assert built(subject, {"ids": [4, 5], "sequence": [4, 5]}) == SEQUENCE


@claim("tpu.build.sequence")
def test_sequence(subject: Subject) -> None:
    assert output_shape(subject, build=(4, 5), max_sequence_length=3) == (4, 3)
    assert output_shape(subject, build=(4, 2), max_sequence_length=3) == (4, 3)


@claim("tpu.build.sequence-of-one")
def test_sequence_of_one(subject: Subject) -> None:
    shape = output_shape(subject, build=(4, 1), max_sequence_length=3)
    assert shape == (4, 3), "the sequence is lost"


@claim("tpu.build.by-enqueue")
def test_by_enqueue(subject: Subject) -> None:
    config = {"dense": feature(), "sparse": feature(max_sequence_length=2)}
    inputs = {"dense": dense(4, 3, 1), "sparse": sparse(4, 5)}
    assert output_shapes(subject, config, inputs) == {"dense": (4, 3), "sparse": (4, 2)}


@claim("tpu.build.newest-protobuf")
def test_newest_protobuf(subject: Subject) -> None:
    if Version(version("protobuf")) < Version("7.34"):
        pytest.skip("protobuf 7.34 or newer")
    with traced() as strategy:
        with strategy.scope():
            embedding = subject.make_embedding(feature(output_shape=[4]), adagrad())
        embedding.build()
        [described] = proto(embedding).table_descriptor
    assert described.vocabulary_size == 6


@claim("tpu.build.small-tables")
def test_small_tables(subject: Subject) -> None:
    config = [feature(table(2), output_shape=[4]), feature(table(6), output_shape=[4])]
    with traced(hosts=4) as strategy:
        with strategy.scope():
            embedding = subject.make_embedding(config, sgd())
        embedding.build()
        rows = [one.vocabulary_size for one in proto(embedding).table_descriptor]
    assert rows == [4, 6]


@claim("tpu.build.rows-in-order")
def test_rows_in_order(subject: Subject) -> None:
    with traced(hosts=2) as strategy:
        with strategy.scope():
            embedding = subject.make_embedding(feature(output_shape=[4]), sgd())
        embedding.build()
        told = proto(embedding)
    assert told.sharding_strategy == told.ShardingStrategy.Value("DIV_DEFAULT")
