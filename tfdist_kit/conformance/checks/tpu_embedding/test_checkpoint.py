"""What is in a checkpoint of the tables, and what it restores into."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tfdist_kit.conformance.checks.tpu_embedding import _saving
from tfdist_kit.conformance.checks.tpu_embedding._saving import (
    OPTIMIZERS,
    config,
    fill,
    optimizer,
    restored,
    saved,
    values,
)
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject

pytestmark = pytest.mark.tfdist(workers=1, timeout=60)

TABLE = "embedding/video"
SLOT = "embedding/video.Saccumulators"


@claim("tpu.checkpoint.tables-and-slots")
def test_tables_and_slots(subject: Subject, tmp_path: Path) -> None:
    made = subject.make_embedding(config(), optimizer())
    filled = fill(made)
    path = saved(made, tmp_path)
    assert list(filled) == ["accumulators", "parameters"]
    held = [_saving.read(path, key) for key in _saving.keys(path)]
    assert sorted(held) == sorted(filled.values())


@claim("tpu.checkpoint.key-of-a-table")
def test_key_of_a_table(subject: Subject, tmp_path: Path) -> None:
    made = subject.make_embedding(config(), optimizer())
    filled = fill(made)
    path = saved(made, tmp_path)
    assert TABLE in _saving.keys(path)
    assert _saving.read(path, TABLE) == filled["parameters"]


@claim("tpu.checkpoint.key-of-a-slot")
def test_key_of_a_slot(subject: Subject, tmp_path: Path) -> None:
    made = subject.make_embedding(config(), optimizer())
    filled = fill(made)
    path = saved(made, tmp_path)
    assert SLOT in _saving.keys(path)
    assert _saving.read(path, SLOT) == filled["accumulators"]


@claim("tpu.checkpoint.same-keys")
def test_same_keys(subject: Subject, tmp_path: Path) -> None:
    def own(optimizer: Any) -> Any:
        return subject.make_embedding(config(), optimizer)

    for name in OPTIMIZERS:
        found: list[dict[str, list[int]]] = []
        for make in (own, _saving.for_serving, _saving.sharded):
            made = make(optimizer(name))
            fill(made)
            found.append(_saving.keys(saved(made, tmp_path / f"{name}{len(found)}")))
        assert TABLE in found[0]
        assert found[0] == found[1], f"{name}: TPUEmbeddingForServing"
        assert found[0] == found[2], f"{name}: shards"


@claim("tpu.checkpoint.from-shards")
def test_from_shards(subject: Subject, tmp_path: Path) -> None:
    shards = _saving.sharded(optimizer())
    table = _saving.variables(shards)["parameters"]
    assert [one.shape.as_list() for one in table.variables] == [[3, 2], [2, 2]]
    filled = fill(shards)
    path = saved(shards, tmp_path)
    whole = subject.make_embedding(config(), optimizer())
    assert whole.embedding_tables
    restored(whole, path).assert_consumed()
    assert values(whole) == filled


@claim("tpu.checkpoint.without-optimizer")
def test_without_optimizer(subject: Subject, tmp_path: Path) -> None:
    first = subject.make_embedding(config(), optimizer())
    filled = fill(first)
    path = saved(first, tmp_path)
    second = subject.make_embedding(config(), None)
    status = restored(second, path)
    assert values(second) == {"parameters": filled["parameters"]}
    status.assert_existing_objects_matched()
    with pytest.raises(AssertionError, match="accumulators"):
        status.assert_consumed()


def _restored_by_subject(subject: Subject, tmp_path: Path, *given: Any) -> Any:
    """Restore a checkpoint of a filled table with Adagrad into an object made of `given`."""
    import tensorflow as tf

    first = subject.make_embedding(config(), optimizer())
    fill(first)
    path = saved(first, tmp_path)
    second = subject.make_embedding(*given)
    assert second.embedding_tables
    subject.restore_embedding(tf.train.Checkpoint(embedding=second), path)


@claim("tpu.checkpoint.another-optimizer")
def test_another_optimizer(subject: Subject, tmp_path: Path) -> None:
    with pytest.raises((AssertionError, ValueError, RuntimeError)):
        _restored_by_subject(subject, tmp_path, config(), optimizer("Adam"))


@claim("tpu.checkpoint.another-vocabulary")
def test_another_vocabulary(subject: Subject, tmp_path: Path) -> None:
    first = subject.make_embedding(config(), optimizer())
    fill(first)
    path = saved(first, tmp_path)
    second = subject.make_embedding(config(rows=7), optimizer())
    assert second.embedding_tables
    with pytest.raises(ValueError, match=r"\(7, 2\)") as raised:
        restored(second, path)
    assert "(5, 2)" in str(raised.value)


@claim("tpu.checkpoint.renamed-table")
def test_renamed_table(subject: Subject, tmp_path: Path) -> None:
    with pytest.raises((AssertionError, ValueError, RuntimeError)):
        _restored_by_subject(subject, tmp_path, config(name="film"), optimizer())


@claim("tpu.checkpoint.fewer-rows-than-hosts")
def test_fewer_rows_than_hosts(subject: Subject, tmp_path: Path) -> None:
    shards = _saving.sharded(optimizer(), rows=1)
    assert len(_saving.variables(shards)["parameters"].variables) == 1
    filled = fill(shards)
    whole = subject.make_embedding(config(rows=1), optimizer())
    restored(whole, saved(shards, tmp_path))
    assert values(whole) == filled


@claim("tpu.checkpoint.saved-model")
def test_saved_model(subject: Subject, tmp_path: Path) -> None:
    import tensorflow as tf

    features = config()
    table = features["watched"].table
    model = tf.Module()
    model.embedding = subject.make_embedding(features, optimizer())
    filled = fill(model.embedding)
    tables = model.embedding.embedding_tables
    found = tables[table] if table in tables else next(iter(tables.values()))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)])
    def serve(ids: Any) -> Any:
        return tf.nn.embedding_lookup(found, ids)

    tf.saved_model.save(model, str(tmp_path), signatures={"serving_default": serve})
    loaded = tf.saved_model.load(str(tmp_path)).signatures["serving_default"]
    [answer] = loaded(tf.constant([3, 0], tf.int64)).values()
    assert answer.numpy().tolist() == [filled["parameters"][3], filled["parameters"][0]]


@claim("tpu.checkpoint.asynchronous")
def test_asynchronous(subject: Subject, tmp_path: Path) -> None:
    import tensorflow as tf

    made = subject.make_embedding(config(), optimizer())
    filled = fill(made)
    options = tf.train.CheckpointOptions(experimental_enable_async_checkpoint=True)
    checkpoint = tf.train.Checkpoint(embedding=made)
    checkpoint.save(str(tmp_path / "step"), options=options)
    checkpoint.sync()
    path = tf.train.latest_checkpoint(str(tmp_path))
    assert _saving.read(path, TABLE) == filled["parameters"]
    assert _saving.read(path, SLOT) == filled["accumulators"]


@claim("tpu.checkpoint.fetched-and-loaded")
def test_fetched_and_loaded(subject: Subject, tmp_path: Path) -> None:
    made = subject.make_embedding(config(), optimizer())
    filled = fill(made)
    table = _saving.variables(made)["parameters"]
    loaded: list[Any] = []
    made._retrieve_variables = lambda: table.assign(table + 1000.0)
    made._load_variables = lambda: loaded.append(values(made)["parameters"])
    path = saved(made, tmp_path)
    fetched = [[each + 1000.0 for each in row] for row in filled["parameters"]]
    assert _saving.read(path, TABLE) == fetched
    assert loaded == []
    table.assign(table * 0.0)
    restored(made, path).assert_consumed()
    assert loaded == [fetched]
