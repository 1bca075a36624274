"""Which machines the handler knows, and what it does there."""

from __future__ import annotations

import pytest

from tfdist_kit.conformance.checks.preemption_checkpoint import _google, _programs
from tfdist_kit.conformance.checks.preemption_checkpoint._training import weight_after
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.scenes import Scenes
from tfdist_kit.conformance.subjects import ADAPTER, Subject

RESTART = (42, 143)


@claim("preempt.platform.own-periodic-saves")
def test_own_periodic_saves(scenes: Scenes) -> None:
    killed = scenes.play(_programs.by_hand, rank=1).ended(1, -9)
    then = scenes.play(_programs.train, after=killed).ended(0, 0)
    assert [part.one("restored")["step"] for part in then.parts] == [4, 4]
    assert [part.one("finished")["weight"] for part in then.parts] == [weight_after(7)] * 2


@claim("preempt.platform.without-notice")
def test_without_notice(scenes: Scenes) -> None:
    scene = scenes.play(_programs.by_hand, rank=1).ended(1, -9)
    saved = [path for path in scene.files("job/ckpt") if path.endswith(".index")]
    assert saved == ["mine-1.index", "mine-2.index"]  # the user's, and none of the handler's


@claim("preempt.platform.detected")
def test_detected(scenes: Scenes) -> None:
    [part] = scenes.play(_google.detected, workers=1).ended(0).parts
    told = [part.one(word)["answer"] for word in ("google", "no such page", "nobody")]
    assert told == [True, False, False]


@claim("preempt.platform.somebody-elses-answer")
def test_somebody_elses_answer(scenes: Scenes) -> None:
    [part] = scenes.play(_google.detected, workers=1).ended(0).parts
    assert part.one("somebody else")["answer"] is False, "taken for Google's"


@claim("preempt.platform.google-cpu")
def test_google_cpu(scenes: Scenes) -> None:
    scene = scenes.play(_google.on_a_cpu)
    assert scene.codes == (42, 42), f"exit codes {scene.codes}"
    assert scene.parts[0].one("saved")["step"] >= 2


@claim("preempt.platform.google-gpu")
def test_google_gpu(scenes: Scenes) -> None:
    [part] = scenes.play(_google.on_a_gpu, workers=1).parts
    assert part.code in RESTART, str(part)
    assert _google.MAINTENANCE in part.one("asked")["paths"]
    assert part.all("saved")


@claim("preempt.platform.google-gpu-grace")
def test_google_gpu_grace(scenes: Scenes, subject: Subject) -> None:
    if subject.kind == ADAPTER:
        pytest.skip("the kit leaves at once unless it is told of a grace period")
    [part] = scenes.play(_google.on_a_gpu, workers=1, grace=-1).ended(0).parts
    assert part.all("trained on")
    assert part.one("saved")["path"] == "ckpt-1"


@claim("preempt.platform.google-spot")
def test_google_spot(scenes: Scenes) -> None:
    scene = scenes.play(_google.on_a_gpu, workers=1, path=_google.PREEMPTED)
    assert scene.codes[0] in RESTART, f"exit codes {scene.codes}"


@claim("preempt.leaving.default-codes")
def test_default_codes(scenes: Scenes, subject: Subject) -> None:
    scenes.play(_programs.train, notices=((1, 3),)).ended(42, 42)
    if subject.kind == ADAPTER:
        pytest.skip("the kit leaves with the same code everywhere")
    scenes.play(_google.on_a_gpu, workers=1).ended(143)


@claim("preempt.keras.keras-3-callback")
def test_keras_3_callback(scenes: Scenes) -> None:
    scenes.play(_google.keras_3, workers=1).ended(0)


@claim("preempt.keras.keras-2-callback")
def test_keras_2_callback(scenes: Scenes) -> None:
    scene = scenes.play(_google.keras_2, workers=1, where="elsewhere")
    assert scene.codes == (42,), f"exit codes {scene.codes}"


@claim("preempt.keras.keras-2-callback-on-a-google-cpu")
def test_keras_2_callback_on_a_google_cpu(scenes: Scenes) -> None:
    scenes.play(_google.keras_2, workers=1, where="google").ended(42)


@claim("preempt.keras.keras-2-callback-resumes")
def test_keras_2_callback_resumes(scenes: Scenes) -> None:
    cut = scenes.play(_google.keras_2, where="answers").ended(42, 42)
    then = scenes.play(_google.keras_2, where="answers", at=-1, after=cut).ended(0, 0)
    for before, after in zip(cut.parts, then.parts, strict=True):
        first, last = after.all("batch")[0], before.all("batch")[-1]
        assert first["number"] == last["number"] + 1
        assert first["weights"] == before.one("model")["weights"] != last["weights"]


@claim("preempt.keras.keras-2-callback-without-its-own-folder")
def test_keras_2_callback_without_its_own_folder(scenes: Scenes) -> None:
    cut = scenes.play(_google.keras_2, where="answers").ended(42, 42)
    then = scenes.play(_google.keras_2, where="answers", at=-1, lost=True, after=cut, drain=1.0)
    then.ended(0, 0)
