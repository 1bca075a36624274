"""TerminationConfig: what counts as a notice, how long the grace is, how to save and to leave."""

from __future__ import annotations

import pytest

from tfdist_kit.conformance.checks.preemption_checkpoint import _alone, _programs
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.scenes import Scenes
from tfdist_kit.conformance.subjects import ADAPTER, Subject

GRACE = 1.5
SAVE = 0.8
"""How long a slow save takes; the page advises a grace period of three times that or more."""


@claim("preempt.termination.sigterm-by-default")
def test_sigterm_by_default(scenes: Scenes) -> None:
    scene = scenes.play(_alone.one_step, workers=1).ended(42)
    assert scene.parts[0].one("saved")["step"] >= 2


@claim("preempt.termination.main-thread-only")
def test_main_thread_only(scenes: Scenes) -> None:
    [part] = scenes.play(_alone.in_a_thread, workers=1, watcher=False).ended(0).parts
    assert "main thread" in part.one("refused")["text"]


@claim("preempt.termination.earlier-signal-handler")
def test_earlier_signal_handler(scenes: Scenes) -> None:
    [part] = scenes.play(_alone.handler_before, workers=1).ended(42).parts
    assert part.all("mine"), "it is not called any more"


@claim("preempt.termination.watcher-polled", "preempt.platform.watcher-of-ones-own")
def test_watcher_polled(scenes: Scenes) -> None:
    [part] = scenes.play(_alone.watched_by, workers=1).ended(42).parts
    first, second = part.all("asked")
    assert second.at - first.at > 0.5
    assert "job/ckpt/checkpoint" in scenes.play(_alone.watched_by, workers=1).files()


@claim("preempt.termination.sigterm-beside-a-watcher")
def test_sigterm_beside_a_watcher(scenes: Scenes) -> None:
    scene = scenes.play(_alone.watched_by, workers=1, calls=0, sigterm=True)
    assert scene.codes == (42,), f"exit codes {scene.codes}"


@claim("preempt.termination.watcher-that-raises")
def test_watcher_that_raises(scenes: Scenes) -> None:
    scene = scenes.play(_alone.watched_by, workers=1, first="raise")
    assert scene.codes == (42,), f"exit codes {scene.codes}"


@claim("preempt.termination.watcher-must-not-block")
def test_watcher_must_not_block(scenes: Scenes, subject: Subject) -> None:
    if subject.kind == ADAPTER:
        pytest.skip("with the kit, leaving waits for no watcher")
    scene = scenes.play(_programs.blocked_watcher).ended(42, 42)
    quick, slow = (part.one("left").at for part in scene.parts)
    assert slow - quick > 0.4


@claim("preempt.termination.grace-trains-on")
def test_grace_trains_on(scenes: Scenes) -> None:
    scene = scenes.play(_programs.graced, grace=GRACE).ended(42, 42)
    saved = scene.parts[0].one("saved")
    assert saved["path"] == "ckpt-2"
    assert saved["step"] == scene.parts[0].one("at")["step"] > 3
    assert len({part.one("at")["step"] for part in scene.parts}) == 1


@claim("preempt.termination.grace-is-kept")
def test_grace_is_kept(scenes: Scenes) -> None:
    scene = scenes.play(
        _programs.saved_by,
        notices=((1, 12),),
        slow=((0, SAVE), (1, SAVE)),
        grace=3 * SAVE,
        steps=4000,
        pause=0.005,
    ).ended(42, 42)
    [part] = scene.parts[1:]
    in_time = part.all("saved")[-1].at - part.one("notice").at < 3 * SAVE
    assert in_time, "the last save ended after the grace period"


@claim("preempt.termination.no-grace")
@pytest.mark.parametrize("grace", [0, None])
def test_no_grace(scenes: Scenes, grace: int | None) -> None:
    scene = scenes.play(_programs.graced, grace=grace).ended(42, 42)
    assert scene.parts[0].one("saved")["path"] == "ckpt-1"
    step = scene.parts[0].one("saved")["step"]
    assert [part.one("at")["step"] for part in scene.parts] == [step, step]


@claim("preempt.termination.last-save-beside-another-thread")
def test_last_save_beside_another_thread(scenes: Scenes) -> None:
    scene = scenes.play(_programs.graced, grace=GRACE, late=True, drain=1.0, steps=400)
    assert scene.codes == (42, 42), f"exit codes {scene.codes}"


@claim("preempt.termination.training-ends-in-the-grace")
def test_training_ends_in_the_grace(scenes: Scenes) -> None:
    scene = scenes.play(_programs.graced, grace=1000.0, steps=30).ended(0, 0)
    assert [part.one("finished")["step"] for part in scene.parts] == [30, 30]
    assert 2 <= scene.parts[0].one("saved")["step"] < 30


@claim("preempt.termination.save-fn")
def test_save_fn(scenes: Scenes) -> None:
    scene = scenes.play(_programs.saved_by).ended(42, 42)
    assert [len(part.all("saving")) for part in scene.parts] == [1, 1]
    assert [path for path in scene.files() if path.startswith("job/ckpt/")] == []
    assert {"by_0/x-1.index", "by_1/x-1.index"} <= set(scene.files())


@claim("preempt.termination.save-fn-arguments")
def test_save_fn_arguments(scenes: Scenes) -> None:
    scene = scenes.play(_programs.own_loop, number=7, used=True).ended(42, 42)
    told = [(part.one("saving")["args"], part.one("saving")["kwargs"]) for part in scene.parts]
    assert told == [([], {"checkpoint_number": 7})] * 2


@claim("preempt.termination.errors-of-the-save")
@pytest.mark.parametrize("error", ["disk", "python"])
def test_errors_of_the_save(scenes: Scenes, error: str) -> None:
    scene = scenes.play(_programs.saved_by, error=error).ended(1, 1)
    assert all("the disk is full" in part.one("raised")["text"] for part in scene.parts)


@claim("preempt.platform.grace-and-exit")
def test_grace_and_exit(scenes: Scenes) -> None:
    scene = scenes.play(_programs.graced_and_left, grace=GRACE).ended(9, 9)
    assert scene.parts[0].one("saved")["path"] == "ckpt-2"
