"""Whole programs: what is the same in each run, and what it depends on."""

from __future__ import annotations

from tfdist_kit.conformance.checks.op_determinism import _data, _limits, _models
from tfdist_kit.conformance.checks.op_determinism.test_switch import only
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.scenes import Scene, Scenes

IN_ORDER = [0, 1, 2, 3]


def both(scene: Scene, word: str, name: str) -> list[str]:
    """What each of two runs has said."""
    return [part.one(word)[name] for part in scene.ended(0, 0).parts]


@claim("determinism.models.same-variables")
def test_same_variables(scenes: Scenes) -> None:
    one, other = both(scenes.play(_models.fit, version=3), "trained", "weights")
    assert one == other


@claim("determinism.models.same-variables-keras-2")
def test_same_variables_keras_2(scenes: Scenes) -> None:
    one, other = both(scenes.play(_models.fit, version=2), "trained", "weights")
    assert one == other


@claim("determinism.models.same-outputs")
def test_same_outputs(scenes: Scenes) -> None:
    one, other = both(scenes.play(_models.inference), "outputs", "results")
    assert len(one) == 1
    assert one == other


@claim("determinism.models.same-hardware")
def test_same_hardware(scenes: Scenes) -> None:
    one, other = both(scenes.play(_models.configured, threads=(1, 2)), "gradient", "results")
    assert (len(one), len(other)) == (1, 1), "it is not steady with itself"
    assert one != other


@claim("determinism.models.same-environment")
def test_same_environment(scenes: Scenes) -> None:
    name = "TF_NUM_INTRAOP_THREADS"
    scene = scenes.play(_models.configured, threads=(1, 2), variable=name)
    one, other = both(scene, "gradient", "results")
    assert (len(one), len(other)) == (1, 1), "it is not steady with itself"
    assert one != other


@claim("determinism.models.input-automatic")
def test_input_automatic(scenes: Scenes) -> None:
    part = scenes.play(_data.augmented).ended(0, 0).parts[_data.WITH]
    for name in ("random op", "generator"):
        said = part.one(name)
        assert said["parallel"] == said["serial"]


@claim("determinism.models.v1-session")
def test_v1_session(scenes: Scenes) -> None:
    assert only(scenes.play(_limits.session, workers=1), "session")["results"] == 2


@claim("determinism.models.parameter-server")
def test_parameter_server(scenes: Scenes) -> None:
    scene = scenes.play(_limits.parameter_server, workers=1)
    assert only(scene, "parameter server")["results"] == 2


@claim("determinism.models.no-other-sources")
def test_no_other_sources(scenes: Scenes) -> None:
    scene = scenes.play(_limits.late, workers=1)
    assert not only(scene, "function")["differs"], "a function goes on drawing without a seed"


@claim("determinism.models.read-before-the-switch")
def test_read_before_the_switch(scenes: Scenes) -> None:
    order = only(scenes.play(_limits.late, workers=1), "read before")["order"]
    in_order = order == IN_ORDER  # otherwise it is told which order it was, by chance
    assert in_order, "it is still read out of order"


@claim("determinism.models.defined-before-the-switch")
def test_defined_before_the_switch(scenes: Scenes) -> None:
    order = only(scenes.play(_limits.late, workers=1), "defined before")["order"]
    assert order == IN_ORDER


@claim("determinism.models.keras-without-xla")
def test_keras_without_xla(scenes: Scenes) -> None:
    scene = scenes.play(_models.fit, workers=1, version=3, compiled=True)
    assert only(scene, "compiled")["with_xla"] is False
