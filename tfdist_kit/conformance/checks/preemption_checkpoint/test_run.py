"""run, save_checkpoint_if_preempted and watch_preemption_scope."""

from __future__ import annotations

import pytest

from tfdist_kit.conformance.checks.preemption_checkpoint import _alone, _programs, _trouble
from tfdist_kit.conformance.checks.preemption_checkpoint._training import LONG, weight_after
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.scenes import Scenes
from tfdist_kit.conformance.subjects import ADAPTER, Subject


@claim("preempt.run.result")
def test_result(scenes: Scenes) -> None:
    [part] = scenes.play(_alone.calls, workers=1).ended(0).parts
    called = part.one("called")
    assert (called["result"], called["nothing"]) == ("result", None)


@claim("preempt.run.arguments")
def test_arguments(scenes: Scenes) -> None:
    [part] = scenes.play(_alone.calls, workers=1).ended(0).parts
    assert part.one("called")["with_"] == [[[1, [2]], {"three": 3}]]


@claim("preempt.run.total-calls")
def test_total_calls(scenes: Scenes) -> None:
    [part] = scenes.play(_alone.calls, workers=1).ended(0).parts
    assert part.one("count")["calls"] == 2
    cut = scenes.play(_programs.train, notices=((1, 3),)).ended(42, 42)
    then = scenes.play(_programs.train, after=cut).ended(0, 0)
    told = [part.one("at") for part in then.parts]
    assert [said["calls"] for said in told] == [said["step"] for said in told]


@claim("preempt.run.failed-call-not-counted")
def test_failed_call_not_counted(scenes: Scenes) -> None:
    [part] = scenes.play(_alone.failed_call, workers=1).ended(0).parts
    assert part.one("count")["calls"] == 1


@claim("preempt.run.total-calls-of-a-second-handler")
def test_total_calls_of_a_second_handler(scenes: Scenes, subject: Subject) -> None:
    if subject.kind == ADAPTER:
        pytest.skip("the kit refuses a second handler")
    [part] = scenes.play(_alone.second_handler, workers=1).ended(0).parts
    assert part.one("count")["calls"] == 3


@claim("preempt.run.errors-everywhere")
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("kind", ["InvalidArgumentError", "Assert"])
def test_errors_everywhere(scenes: Scenes, kind: str, rank: int) -> None:
    scene = scenes.play(_trouble.failing, kind=kind, rank=rank).ended(1, 1)
    for part in scene.parts:
        caught = part.one("caught")
        assert caught["type"] == "InvalidArgumentError"
        assert "the batch is broken" in caught["text"]


@claim("preempt.run.errors-of-any-kind")
def test_errors_of_any_kind(scenes: Scenes) -> None:
    scene = scenes.play(_trouble.failing, kind="ValueError", drain=3.0).ended(1, 1)
    is_told = "the batch is broken" in scene.parts[0].one("caught")["text"]
    assert is_told, "the other worker is told something else"


@claim("preempt.run.end-of-data")
def test_end_of_data(scenes: Scenes) -> None:
    scene = scenes.play(_trouble.end_of_data, drain=3.0)
    trained = [said["step"] for part in scene.parts for said in part.all("finished")]
    assert trained == [4, 4], "no worker could train on"


@claim("preempt.run.lost-worker")
@pytest.mark.parametrize("rank", [0, 1])
def test_lost_worker(scenes: Scenes, rank: int) -> None:
    scene = scenes.play(_programs.by_hand, rank=rank)
    survivor = scene.parts[1 - rank]
    assert scene.codes[rank] == -9
    assert survivor.one("raised")["type"] in ("UnavailableError", "InternalError", "AbortedError")


@claim("preempt.run.frozen-worker")
def test_frozen_worker(scenes: Scenes) -> None:
    scene = scenes.play(_trouble.silent, how="frozen", drain=0.1)
    assert scene.parts[0].all("raised"), str(scene.parts[0])


@claim("preempt.run.stuck-worker")
def test_stuck_worker(scenes: Scenes) -> None:
    scene = scenes.play(_trouble.silent, how="stuck", drain=0.1, limit=3.5)
    assert scene.parts[0].all("raised"), "nobody notices"


@claim("preempt.run.uneven-steps")
def test_uneven_steps(scenes: Scenes) -> None:
    scene = scenes.play(_trouble.uneven, drain=0.5)
    sums = {said["number"]: said["total"] for said in scene.parts[0].all("sum")}
    assert {number: 2.0 * number for number in sums} == sums, "batches of other steps were added"


@claim("preempt.run.between-calls-only")
def test_between_calls_only(scenes: Scenes) -> None:
    scene = scenes.play(_programs.many_steps_in_a_call).ended(42, 42)
    counts = [len(part.all("call")) for part in scene.parts]
    assert counts[0] == counts[1] >= 2
    assert scene.parts[0].one("saved")["step"] == 5 * counts[0]


@claim("preempt.run.second-example")
def test_second_example(scenes: Scenes) -> None:
    scenes.play(_alone.second_example, workers=1, literally=True).ended(0)


@claim("preempt.run.example-goes-on-with-its-data")
def test_example_goes_on_with_its_data(scenes: Scenes) -> None:
    cut = scenes.play(_alone.second_example, workers=1, literally=False, notices=True).ended(42)
    then = scenes.play(_alone.second_example, workers=1, literally=False, after=cut).ended(0)
    seen = [said["number"] for part in (*cut.parts, *then.parts) for said in part.all("batch")]
    assert seen == list(range(LONG)), f"batches {seen}"


@claim("preempt.run.first-example")
def test_first_example(scenes: Scenes) -> None:
    scenes.play(_alone.first_example, workers=1).ended(0)


@claim("preempt.run.batch-by-args")
def test_batch_by_args(scenes: Scenes) -> None:
    [part] = scenes.play(_alone.batch_of, workers=1).ended(0).parts
    assert part.one("trained")["batch"] == 1.0


@claim("preempt.run.iterator-read-within")
def test_iterator_read_within(scenes: Scenes) -> None:
    assert batches(scenes, "inside") == list(range(LONG))


@claim("preempt.run.batch-as-argument")
def test_batch_as_argument(scenes: Scenes) -> None:
    assert batches(scenes, "outside") == list(range(LONG)), "a batch was left out"


def batches(scenes: Scenes, fetched: str) -> list[int]:
    """What a training that was cut off once has trained."""
    cut = scenes.play(_alone.iterated, workers=1, fetched=fetched).ended(42)
    then = scenes.play(_alone.iterated, workers=1, fetched=fetched, after=cut).ended(0)
    return [said["number"] for part in (*cut.parts, *then.parts) for said in part.all("batch")]


@claim("preempt.run.distributed-iterator")
def test_distributed_iterator(scenes: Scenes) -> None:
    scenes.play(_alone.distributed_iterator, workers=1).ended(0)


@claim("preempt.save-if-preempted.own-loop", "preempt.save-if-preempted.without-run")
def test_own_loop(scenes: Scenes) -> None:
    cut = scenes.play(_programs.own_loop).ended(42, 42)
    saved = cut.parts[0].one("saved")
    assert saved["weight"] == weight_after(int(saved["step"]))
    then = scenes.play(_programs.own_loop, notices=(), after=cut).ended(0, 0)
    for part in then.parts:
        finished = part.one("finished")
        assert finished["weight"] == weight_after(finished["step"])


@claim("preempt.save-if-preempted.arguments")
def test_own_loop_arguments(scenes: Scenes) -> None:
    scene = scenes.play(_programs.own_loop, number=55).ended(42, 42)
    assert scene.parts[0].one("saved")["path"] == "ckpt-55"


@claim("preempt.save-if-preempted.total-calls")
def test_own_loop_total_calls(scenes: Scenes) -> None:
    cut = scenes.play(_programs.own_loop).ended(42, 42)
    then = scenes.play(_programs.own_loop, notices=(), after=cut).ended(0, 0)
    at = then.parts[0].one("at")
    assert at["calls"] == at["step"], "calls are missing"


@claim("preempt.watch-scope.not-needed")
def test_watch_scope_not_needed(scenes: Scenes) -> None:
    within = scenes.play(_programs.in_watch_scope).ended(42, 42)
    without = scenes.play(_programs.train, notices=((1, 2),)).ended(42, 42)
    for scene in (within, without):
        saved = scene.parts[0].one("saved")
        assert saved["weight"] == weight_after(int(saved["step"]))
    assert within.files() == without.files()


@claim("preempt.watch-scope.errors")
def test_watch_scope_errors(scenes: Scenes) -> None:
    scene = scenes.play(_trouble.failing, kind="InvalidArgumentError", scope=True).ended(1, 1)
    assert "the batch is broken" in scene.parts[0].one("caught")["text"]
