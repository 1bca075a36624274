"""What is saved where, and how the processes leave."""

from __future__ import annotations

import pytest

from tfdist_kit.conformance.checks.preemption_checkpoint import _alone, _programs
from tfdist_kit.conformance.checks.preemption_checkpoint._training import weight_after
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.scenes import Scenes
from tfdist_kit.conformance.subjects import ADAPTER, Subject

CHECKPOINT = ["checkpoint", "ckpt-1.data-00000-of-00001", "ckpt-1.index"]


@claim("preempt.saving.chief-only")
def test_chief_only(scenes: Scenes) -> None:
    scene = scenes.play(_programs.train, notices=((1, 3),)).ended(42, 42)
    assert scene.files("job/ckpt") == CHECKPOINT
    assert scene.files() == [f"job/ckpt/{name}" for name in CHECKPOINT]


@claim("preempt.saving.nothing-left-at-the-end")
def test_nothing_left_at_the_end(scenes: Scenes) -> None:
    scene = scenes.play(_programs.train).ended(0, 0)
    assert [path for path in scene.files() if "workertemp" in path] == []


@claim("preempt.saving.users-checkpoints-stay")
def test_users_checkpoints_stay(scenes: Scenes) -> None:
    scene = scenes.play(_alone.keeps_what_there_was, workers=1, keep=0)
    found = [path for path in scene.files("job/ckpt") if path.endswith(".index")]
    gone = sorted({"ckpt-1.index", "ckpt-2.index", "ckpt-3.index"} - set(found))
    assert gone == [], "deleted"


@claim("preempt.saving.folders-of-others-stay")
def test_folders_of_others_stay(scenes: Scenes) -> None:
    other = scenes.play(_programs.train).ended(0, 0)
    (other.folder / "job/workertemp_1").mkdir(parents=True, exist_ok=True)
    (other.folder / "job/workertemp_1/another-job").touch()
    scene = scenes.play(_programs.train, after=other, notices=((1, 3),)).ended(42, 42)
    assert "job/workertemp_1/another-job" in scene.files(), "the other job's was removed"


@claim("preempt.saving.same-weights")
def test_same_weights(scenes: Scenes) -> None:
    whole = scenes.play(_programs.train).ended(0, 0)
    cut = scenes.play(_programs.train, notices=((1, 3),)).ended(42, 42)
    then = scenes.play(_programs.train, after=cut).ended(0, 0)
    for part in (*whole.parts, *then.parts):
        finished = part.one("finished")
        assert finished["weight"] == weight_after(finished["step"])
    steps = [said["step"] for scene in (cut, then) for said in scene.parts[0].all("step")]
    assert steps == list(range(then.parts[0].one("finished")["step"]))


@claim("preempt.saving.on-read-variables")
def test_on_read_variables(scenes: Scenes) -> None:
    scene = scenes.play(_programs.train, notices=((1, 3),)).ended(42, 42)
    saved = scene.parts[0].one("saved")
    assert saved["seen"] == 2 * saved["step"] > 0


@claim("preempt.saving.counters-agree")
def test_counters_agree(scenes: Scenes) -> None:
    scene = scenes.play(_programs.train, notices=((1, 3),)).ended(42, 42)
    saved = scene.parts[0].one("saved")
    assert saved["weight"] == weight_after(int(saved["step"]))
    assert saved["step"] == scene.parts[0].one("at")["step"]


@claim("preempt.saving.manager-as-given")
def test_manager_as_given(scenes: Scenes) -> None:
    scene = scenes.play(_alone.keeps_what_there_was, workers=1, keep=3).ended(42)
    found = [path for path in scene.files("job/ckpt") if path.endswith(".index")]
    assert found == ["ckpt-2.index", "ckpt-3.index", "ckpt-4.index"]
    assert scene.parts[0].one("restored")["step"] == 2  # what the manager saved last


@claim("preempt.leaving.process-exits")
def test_process_exits(scenes: Scenes) -> None:
    scenes.play(_programs.ended_by_python, again=False).ended(42, 42)


@claim("preempt.leaving.exit-fn")
@pytest.mark.parametrize(("code", "status"), [("7", 7), ("until then", 1)])
def test_exit_fn(scenes: Scenes, code: str, status: int) -> None:
    scene = scenes.play(_programs.left_by, code=code).ended(status, status)
    for part in scene.parts:
        assert part.one("exit_fn").at < part.one("left").at
    assert scene.parts[0].one("saved")["step"] >= 2


@claim("preempt.leaving.exit-fn-restarts")
def test_exit_fn_restarts(scenes: Scenes) -> None:
    cut = scenes.play(_programs.left_by, code="7").ended(7, 7)
    then = scenes.play(_programs.train, after=cut).ended(0, 0)
    for part in then.parts:
        finished = part.one("finished")
        assert finished["weight"] == weight_after(finished["step"])
        assert finished["step"] >= 5


@claim("preempt.leaving.exit-fn-that-does-not-exit")
def test_exit_fn_that_does_not_exit(scenes: Scenes, subject: Subject) -> None:
    if subject.kind == ADAPTER:
        pytest.skip("the kit has every exit_fn leave")
    scene = scenes.play(_programs.left_by, code="nothing", notices=((1, 2), (1, 4)), steps=7)
    scene.ended(0, 0)
    assert [len(part.all("exit_fn")) for part in scene.parts] == [1, 1]
    assert [part.one("finished")["step"] for part in scene.parts] == [7, 7]


@claim("preempt.leaving.slow-saver")
@pytest.mark.parametrize("rank", [0, 1])
def test_slow_saver(scenes: Scenes, rank: int) -> None:
    scene = scenes.play(_programs.saved_by, slow=((rank, 0.7),)).ended(42, 42)
    assert [len(part.all("saved")) for part in scene.parts] == [1, 1]
    assert scene.parts[rank].one("saved").at - scene.parts[rank].one("saving").at > 0.6
