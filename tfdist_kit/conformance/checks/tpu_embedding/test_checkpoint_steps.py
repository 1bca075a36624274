"""Checkpoints of tables that steps have trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tfdist_kit.conformance.checks.tpu_embedding import _saving
from tfdist_kit.conformance.checks.tpu_embedding._numbers import Feature
from tfdist_kit.conformance.checks.tpu_embedding._saving import (
    fill,
    optimizer,
    restored,
    saved,
    values,
)
from tfdist_kit.conformance.checks.tpu_embedding._training import (
    BATCHES,
    SHAPES,
    Training,
    begin,
    training,
)
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject

pytestmark = pytest.mark.tfdist(workers=1, timeout=60)


def _graph(path: str) -> list[Any]:
    """The children and the saver of each object in a checkpoint."""
    import tensorflow as tf
    from tensorflow.core.protobuf import trackable_object_graph_pb2

    proto = trackable_object_graph_pb2.TrackableObjectGraph()
    proto.ParseFromString(tf.train.load_checkpoint(path).get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH"))
    return sorted(
        (sorted(child.local_name for child in node.children), node.registered_saver.name)
        for node in proto.nodes
    )


BATCH = {"who": Feature("user", [[3], [1, 3]], combiner="sum")}
TABLE: Any = {"name": "user", "rows": 4, "dim": 3}
"""The table of `BATCH`, for objects that only hold tables."""


def _stepped(subject: Subject) -> Training:
    """An object that has run a step."""
    trained = training(subject, BATCH, optimizer("Adagrad", 0.5))
    trained.step(BATCH)
    return trained


@claim("tpu.checkpoint.nothing-added")
def test_nothing_added(subject: Subject, tmp_path: Path) -> None:
    plain = _saving.stock(optimizer("Adagrad", 0.5), **TABLE)
    fill(plain, "user")
    wanted = _graph(saved(plain, tmp_path / "plain"))
    found = _graph(saved(_stepped(subject).embedding, tmp_path / "stepped"))
    assert found == wanted
    assert [saver for _, saver in wanted if saver] == ["tf.TPUEmbeddingCallback"]


@claim("tpu.checkpoint.after-steps")
def test_after_steps(subject: Subject, tmp_path: Path) -> None:
    first = _stepped(subject)
    state = first.held(tmp_path / "state")["user"]
    assert (state["parameters"][[1, 3]] != begin(SHAPES["user"])[[1, 3]]).all()
    held = {slot: rows.tolist() for slot, rows in state.items()}
    path = saved(first.embedding, tmp_path / "first")
    for make in (_saving.stock, _saving.for_serving, _saving.sharded):
        built = make(optimizer("Adagrad"), **TABLE)
        assert built.embedding_tables
        restored(built, path).assert_consumed()
        assert values(built, "user") == held, make.__name__
    for make in (_saving.stock, _saving.for_serving):
        later = make(optimizer("Adagrad"), **TABLE)
        status = restored(later, path)
        assert values(later, "user") == held, make.__name__
        status.assert_consumed()


@claim("tpu.checkpoint.resumed")
@pytest.mark.parametrize("kind", ["Adagrad", "Adam"])
def test_resumed(subject: Subject, tmp_path: Path, kind: str) -> None:
    def begun(*batches: Any) -> Training:
        trained = training(subject, BATCHES[0], optimizer(kind, 0.1))
        for each in batches:
            trained.step(each)
        return trained

    first, *others = BATCHES
    wanted = begun(first, *others).held(tmp_path / "whole")
    path = saved(begun(first).embedding, tmp_path / "first")
    resumed = begun()
    status = restored(resumed.embedding, path)
    for each in others:
        resumed.step(each)
    status.assert_consumed()
    found = resumed.held(tmp_path / "resumed")
    for table, state in wanted.items():
        for slot, rows in state.items():
            assert found[table][slot].tobytes() == rows.tobytes(), f"{table} {slot}"
