"""What a handler restores when it is made."""

from __future__ import annotations

import pytest

from tfdist_kit.conformance.checks.preemption_checkpoint import _alone, _programs
from tfdist_kit.conformance.checks.preemption_checkpoint._training import weight_after
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.scenes import Scene, Scenes


def preempted(scenes: Scenes) -> Scene:
    """A training that was cut off."""
    return scenes.play(_programs.train, notices=((1, 3),)).ended(42, 42)


@claim("preempt.restore.newest")
def test_newest(scenes: Scenes) -> None:
    before = preempted(scenes)
    again = scenes.play(_programs.train, after=before).ended(0, 0)
    step = before.parts[0].one("saved")["step"]
    assert step >= 3
    restored = again.parts[0].one("restored")
    assert (restored["step"], restored["weight"]) == (step, weight_after(int(step)))


@claim("preempt.restore.nothing-there")
def test_nothing_there(scenes: Scenes) -> None:
    scene = scenes.play(_programs.train).ended(0, 0)
    told = [(part.one("restored")["step"], part.one("restored")["weight"]) for part in scene.parts]
    assert told == [(0, 0.0), (0, 0.0)]


@claim("preempt.restore.saved-by-user")
def test_saved_by_user(scenes: Scenes) -> None:
    [part] = scenes.play(_alone.restored, workers=1, how="saved").ended(0).parts
    assert part.one("restored")["weight"] == 3.0


@claim("preempt.restore.only-what-is-listed")
def test_only_what_is_listed(scenes: Scenes) -> None:
    [part] = scenes.play(_alone.restored, workers=1, how="written").ended(0).parts
    assert part.one("restored")["weight"] == 0.0


@claim("preempt.restore.newest-whoever-saved")
def test_newest_whoever_saved(scenes: Scenes) -> None:
    killed = scenes.play(_programs.by_hand, rank=1).ended(1, -9)
    then = scenes.play(_programs.train, after=killed, notices=((0, 5),)).ended(42, 42)
    assert then.parts[0].one("restored")["step"] == 4  # the user's
    last = scenes.play(_programs.train, after=then).ended(0, 0)
    restored = last.parts[0].one("restored")["step"]
    assert restored == then.parts[0].one("at")["step"] >= 5  # the handler's


@claim("preempt.restore.keras-3")
def test_keras_3(scenes: Scenes) -> None:
    same_as_whole(scenes, 3)


@claim("preempt.restore.keras-2")
def test_keras_2(scenes: Scenes) -> None:
    same_as_whole(scenes, 2)


def same_as_whole(scenes: Scenes, version: int) -> None:
    """A model and its optimizer come to the same values with and without an interruption."""
    program = _alone.trained_by_keras
    cut = scenes.play(program, workers=1, version=version).ended(42)
    again = scenes.play(program, workers=1, version=version, again=True, after=cut)
    [part] = again.ended(0).parts
    assert part.one("restored")["step"] >= 3
    assert part.one("resumed").data == part.one("whole").data


@claim("preempt.restore.same-place-for-all")
def test_same_place_for_all(scenes: Scenes) -> None:
    before = preempted(scenes)
    assert before.files("job") == [
        "ckpt/checkpoint",
        "ckpt/ckpt-1.data-00000-of-00001",
        "ckpt/ckpt-1.index",
    ]
    again = scenes.play(_programs.train, after=before).ended(0, 0)
    assert [part.one("restored")["step"] for part in again.parts] == [
        part.one("at")["step"] for part in before.parts
    ]


@claim("preempt.restore.wrong-structure")
def test_wrong_structure(scenes: Scenes) -> None:
    [part] = scenes.play(_alone.restored, workers=1, how="other objects").parts
    assert part.all("raised"), "nothing is restored, and nothing is said"


@claim("preempt.restore.another-worker-count")
@pytest.mark.parametrize("workers", [1, 3])
def test_another_worker_count(scenes: Scenes, workers: int) -> None:
    before = preempted(scenes)
    again = scenes.play(_programs.train, workers=workers, after=before)
    again.ended(*(0,) * workers)
    found = {part.one("restored")["weight"] for part in again.parts}
    assert found == {before.parts[0].one("saved")["weight"]}
