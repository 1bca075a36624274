"""Whatever notice comes, on whichever worker: all stop at one step, save, and go on there later."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.cluster import run_workers
from tests.adapters.preemption_checkpoint.training import Told, files

TRAIN = "tests.adapters.preemption_checkpoint.training:train"
TERM, USR1 = signal.SIGTERM, signal.SIGUSR1
UNINTERRUPTED = 12


def train(folder: Path, **kwargs: Any) -> list[Told]:
    workers = kwargs.pop("workers", 2)
    return run_workers(TRAIN, workers=workers, timeout=60, folder=str(folder), **kwargs)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> str:
    [first, _] = train(tmp_path_factory.mktemp("uninterrupted"))
    assert (first.code, first.error, first.step) == (None, "", UNINTERRUPTED)
    return first.digest


CASES: dict[str, dict[str, Any]] = {
    "the other worker": {"blows": {1: [(5, TERM)]}},
    "the chief, in the first step": {"blows": {0: [(0, TERM)]}},
    "both, and twice": {"blows": {0: [(5, TERM), (6, TERM)], 1: [(5, TERM), (5, TERM)]}},
    "another signal": {"blows": {1: [(5, USR1)]}, "signals": (TERM, USR1)},
    "in the last step": {"blows": {1: [(11, TERM)]}},
    "a loop of one's own": {"blows": {1: [(5, TERM)]}, "own_loop": True},
    "three workers": {"blows": {2: [(5, TERM)]}, "workers": 3},
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_all_stop_at_one_step_and_go_on_there(
    case: dict[str, Any], tmp_path: Path, uninterrupted: str
) -> None:
    folder = tmp_path / "checkpoints"
    stopped = train(folder, **case)
    assert [told.code for told in stopped] == [42] * len(stopped)
    [(step, runs)] = {(told.step, told.runs) for told in stopped}
    blow = min(step for blows in case["blows"].values() for step, _ in blows)
    assert blow <= step <= blow + 2
    assert runs == step
    assert all(name.startswith("ckpt-") or name == "checkpoint" for name in files(folder))
    if case.get("workers", 2) == 2:
        resumed = train(folder, own_loop=case.get("own_loop", False))
        assert {told.restored for told in resumed} == {step}
        assert [told.digest for told in resumed] == [uninterrupted] * 2
        assert {told.runs for told in resumed} == {UNINTERRUPTED}


def test_one_process_alone(tmp_path: Path) -> None:
    [told] = run_workers(TRAIN, workers=0, folder=str(tmp_path), blows={0: [(5, TERM)]})
    assert (told.code, told.step) == (42, told.runs)
    [again] = run_workers(TRAIN, workers=0, folder=str(tmp_path))
    assert (again.restored, again.step, again.error) == (told.step, UNINTERRUPTED, "")


@pytest.mark.parametrize("told_rank", [0, 1])
def test_workers_that_drift_apart_are_brought_together(told_rank: int, tmp_path: Path) -> None:
    """Steps without a collective: the quick one is ten ahead when the notice comes."""
    stopped = train(
        tmp_path,
        blows={told_rank: [(4, TERM)]},
        pause={1: 0.02},
        collective=False,
        steps=1000,
    )
    assert [told.code for told in stopped] == [42, 42]
    assert len({told.step for told in stopped}) == 1
