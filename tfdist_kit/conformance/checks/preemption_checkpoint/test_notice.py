"""What happens when a notice comes, and when it comes at another time than expected."""

from __future__ import annotations

import pytest

from tfdist_kit.conformance.checks.preemption_checkpoint import _programs, _trouble
from tfdist_kit.conformance.checks.preemption_checkpoint._training import weight_after
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.scenes import Scenes
from tfdist_kit.conformance.subjects import ADAPTER, Subject

ALL = (42, 42)
SOON = 20
"""Steps within which a notice is handled."""


@claim("preempt.notice.watched-from-construction")
def test_watched_from_construction(scenes: Scenes) -> None:
    scene = scenes.play(_trouble.in_the_first_trace).ended(*ALL)
    assert scene.parts[0].one("saved")["step"] >= 1


@claim("preempt.notice.any-worker")
@pytest.mark.parametrize("rank", [0, 1])
def test_any_worker(scenes: Scenes, rank: int) -> None:
    scenes.play(_programs.train, notices=((rank, 3),)).ended(*ALL)


@claim("preempt.notice.handled-at-next-run")
def test_handled_at_next_run(scenes: Scenes) -> None:
    scene = scenes.play(_programs.train, notices=((1, 3),)).ended(*ALL)
    step = scene.parts[0].one("saved")["step"]
    assert [part.one("at")["step"] for part in scene.parts] == [step, step]
    assert 3 <= step <= 3 + SOON


@claim("preempt.notice.several-at-once")
def test_several_at_once(scenes: Scenes) -> None:
    notices = tuple((rank, 3) for rank in range(3))
    scene = scenes.play(_programs.train, workers=3, notices=notices).ended(42, 42, 42)
    saved = scene.parts[0].one("saved")
    assert [part.one("at")["step"] for part in scene.parts] == [saved["step"]] * 3
    assert saved["weight"] == weight_after(int(saved["step"]), 3)


@claim("preempt.notice.repeated")
def test_repeated(scenes: Scenes) -> None:
    scene = scenes.play(_programs.train, notices=((1, 3), (1, 3))).ended(*ALL)
    assert scene.parts[0].one("saved")["path"] == "ckpt-1"


@claim("preempt.notice.repeated")
def test_repeated_in_the_save(scenes: Scenes) -> None:
    scene = scenes.play(_programs.saved_by, again=True).ended(*ALL)
    assert [len(part.all("saved")) for part in scene.parts] == [1, 1]


@claim("preempt.notice.repeated-in-teardown")
def test_repeated_in_teardown(scenes: Scenes) -> None:
    scenes.play(_programs.ended_by_python, again=True).ended(*ALL)


@claim("preempt.notice.steps-without-a-collective")
def test_steps_without_a_collective(scenes: Scenes) -> None:
    scene = scenes.play(_trouble.out_of_step, drain=2.0, limit=8.0).ended(*ALL)
    assert len({part.one("at")["step"] for part in scene.parts}) == 1


@claim("preempt.notice.worker-that-stops-calling-run")
def test_worker_that_stops_calling_run(scenes: Scenes) -> None:
    scene = scenes.play(_trouble.stops_calling, drain=2.0, limit=5.0)
    assert "job/ckpt/checkpoint" in scene.files(), f"no checkpoint was saved: {scene.codes}"


@claim("preempt.notice.before-the-strategy")
def test_before_the_strategy(scenes: Scenes) -> None:
    scene = scenes.play(_trouble.before_the_strategy, drain=0.3, limit=8.0)
    assert scene.codes[1] == 42, f"exit codes {scene.codes}"


@claim("preempt.notice.between-strategy-and-handler")
def test_between_strategy_and_handler(scenes: Scenes) -> None:
    scene = scenes.play(_trouble.before_the_handler, drain=1.0, limit=8.0)
    assert scene.codes[1] == 42, f"exit codes {scene.codes}"


@claim("preempt.notice.without-a-handler")
def test_without_a_handler(scenes: Scenes) -> None:
    scenes.play(_trouble.without_a_handler, workers=1).ended(-15)


@claim("preempt.notice.after-the-last-step")
def test_after_the_last_step(scenes: Scenes) -> None:
    scene = scenes.play(_trouble.after_the_last_step, drain=2.0, limit=8.0)
    assert scene.codes == ALL, f"exit codes {scene.codes}"


@claim("preempt.notice.second-handler")
def test_second_handler(scenes: Scenes, subject: Subject) -> None:
    if subject.kind == ADAPTER:
        pytest.skip("the kit refuses a second handler")
    scene = scenes.play(_trouble.second_handler, drain=2.0, limit=8.0)
    raised = [each for part in scene.parts for each in part.all("threads")]
    assert [told["raised"] for told in raised] == [[], []]
    scene.ended(*ALL)


@claim("preempt.notice.evaluator")
def test_evaluator(scenes: Scenes) -> None:
    scene = scenes.play(_trouble.evaluator, workers=1, evaluator=True, limit=8.0)
    evaluator = scene.parts[1]
    assert evaluator.code == 42 or not evaluator.all("made"), str(evaluator)
