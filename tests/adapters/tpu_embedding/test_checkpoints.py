"""Checkpoints of embeddings: read by every class, refused if they do not fit, resumed exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.adapters.cluster import run_workers

HERE = "tests.adapters.tpu_embedding.saving"
MISFITS = "tests.adapters.tpu_embedding.misfits"
CLASSES = ("host", "plain", "serving", "sharded")


@pytest.fixture(scope="module")
def exchanged() -> dict[str, Any]:
    [found] = run_workers(f"{HERE}:interchange", workers=0)
    return dict(found)


def test_every_class_restores_what_any_has_saved(exchanged: dict[str, Any]) -> None:
    assert len(exchanged["same"]) == 2 * len(CLASSES) ** 2
    assert exchanged["same"] == dict.fromkeys(exchanged["same"], True)
    assert not any(exchanged["fresh"].values())


def test_host_mode_adds_no_key_to_a_checkpoint(exchanged: dict[str, Any]) -> None:
    keys = [exchanged["keys"][name] for name in CLASSES]
    assert all(each == keys[0] for each in keys)
    assert len(keys[0]) == 2 + 5 + 7  # the graph and the counter, five tables, all their slots


def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Path) -> None:
    [found] = run_workers(f"{HERE}:resumed", workers=0, folder=str(tmp_path))
    assert found == {"manager": True, "package": True}


def test_a_resumed_run_of_two_workers_ends_with_the_same_bits(tmp_path: Path) -> None:
    for found in run_workers(f"{HERE}:resumed", folder=str(tmp_path)):
        assert found == {"manager": True, "package": True}


# Of each wrong restore what must be said.
SAID = {
    "renamed": (
        "embedding: table 'films' (4 x 2) is not in the checkpoint, which has 'items' (4 x 2), "
        "'users' (4 x 2)",
        "renamed={'films': 'items'}",
    ),
    "more tables": ("table 'films' (4 x 2) is not in the checkpoint",),
    "fewer tables": ("the checkpoint has the tables 'items', which the embedding lacks",),
    "sgd": (
        "table 'users': the checkpoint has the slots 'momenta', 'velocities' (Adam), the embedding "
        "wants no slots (SGD, or none)",
        "optimizer=None",
    ),
    "momentum": ("wants the slots 'accumulators', 'momenta' (AdagradMomentum)",),
    "rows": ("table 'users': the checkpoint has 4 x 2, the embedding wants 5 x 2",),
    "dim": ("table 'items': the checkpoint has 4 x 2, the embedding wants 4 x 3",),
    "variable": ("step: the checkpoint has none, the program wants a variable of shape ()",),
    "keras": (
        "the checkpoint has one of shape (3, 1), the program wants a variable of shape (3, 2)",
    ),
    "keras layer": ("the checkpoint has none, the program wants a variable of shape (1, 1)",),
}


@pytest.fixture(scope="module")
def misfits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, bool]]:
    folder = tmp_path_factory.mktemp("misfits")
    [found] = run_workers(f"{MISFITS}:misfit", workers=0, folder=str(folder))
    return dict(found)


@pytest.mark.parametrize("built", ["built", "not built"])
@pytest.mark.parametrize("wrong", SAID)
def test_what_does_not_fit_is_said_and_nothing_is_restored(
    misfits: dict[str, tuple[str, bool]], wrong: str, built: str
) -> None:
    said, untouched = misfits[f"{wrong}, {built}"]
    assert said.startswith("EmbeddingError TFD080: ")
    for text in SAID[wrong]:
        assert text in said
    assert "nothing was restored" in said
    assert untouched


def test_what_fits_is_restored(tmp_path: Path) -> None:
    [found] = run_workers(f"{MISFITS}:fitting", workers=0, folder=str(tmp_path))
    assert found == dict.fromkeys(found, True)
    assert len(found) == 12


def test_several_tables_are_restored_from_one(tmp_path: Path) -> None:
    [found] = run_workers(f"{MISFITS}:restored_from_one", workers=0, folder=str(tmp_path))
    assert [fits for fits, _ in found] == [True] * 8
    assert [len(names) for _, names in found] == [2] * 4 + [6] * 4


def test_a_damaged_checkpoint_is_said_to_be_one(tmp_path: Path) -> None:
    [found] = run_workers(f"{MISFITS}:damaged", workers=0, folder=str(tmp_path))
    assert len(found) == 9
    for name, (said, untouched) in found.items():
        assert untouched
        lines = [line for line in said.splitlines() if "TFD080" in line]
        assert len(lines) == 1 + ("flipped" not in name), name
        for line in lines:
            assert line.startswith("EmbeddingError TFD080: "), name
            assert "cannot be read, so it is damaged or not complete" in line


def test_arguments_that_cannot_be_right_are_answered(tmp_path: Path) -> None:
    [said] = run_workers(f"{MISFITS}:refusals", workers=0, folder=str(tmp_path))
    expected = [
        "UsageError TFD001: there is no checkpoint at",
        "UsageError TFD001: there is no checkpoint at",
        "UsageError TFD001: the tf.train.Checkpoint holds no embedding",
        "UsageError TFD001: checkpoint is a HostTPUEmbedding",
        "UsageError TFD001: renamed has 'films', but the embedding has the tables 'items', 'users'",
        "UsageError TFD001: renamed is ['items']",
        "UsageError TFD001: renamed is {'items': None}",
        "UsageError TFD001: the checkpoint's path is None",
        "UsageError TFD001: the checkpoint's path is None",
        "UsageError TFD001: the checkpoint's path is b'",
        "UsageError TFD001: renamed is given, but the embedding is not built",
        "table: the checkpoint has no embedding here, but it has at embedding",
        "table 'users' (4 x 2) is not in the checkpoint, which has no table",
        "UsageError TFD001: embedding is a Module",
        "table 'users': the checkpoint has the slots 'momenta', 'velocities' (Adam)",
        "table 'users' (4 x 2) is not in the checkpoint, which has no table",
    ]
    for text, start in zip(said, expected, strict=True):
        assert start in text
