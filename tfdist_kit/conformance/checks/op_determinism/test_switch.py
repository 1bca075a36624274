"""The switch itself, and the two lines that the page puts in front of every program."""

from __future__ import annotations

import inspect

import pytest

from tfdist_kit.conformance.checks.op_determinism import _models, _ops, _random
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.scenes import Scene, Scenes
from tfdist_kit.conformance.stage import Said


def only(scene: Scene, word: str) -> Said:
    """What the one worker of a scene has said so."""
    [part] = scene.ended(0).parts
    return part.one(word)


@claim("determinism.switch.signature")
@pytest.mark.tfdist(workers=1, fresh=True)
def test_signature() -> None:
    import tensorflow as tf

    switch = tf.config.experimental.enable_op_determinism
    assert not inspect.signature(switch).parameters
    assert switch() is None


@claim("determinism.switch.not-in-v1")
@pytest.mark.tfdist(workers=1)
def test_not_in_v1() -> None:
    import tensorflow as tf

    assert not hasattr(tf.compat.v1.config.experimental, "enable_op_determinism")


@claim("determinism.switch.off-by-default")
def test_off_by_default(scenes: Scenes) -> None:
    scene = scenes.play(_ops.before_and_after, workers=1)
    assert only(scene, "at first")["answer"] is False
    assert only(scene, "is on")["answer"] is True


@claim("determinism.switch.off-again")
def test_off_again(scenes: Scenes) -> None:
    scene = scenes.play(_ops.before_and_after, workers=1)
    assert only(scene, "is off")["answer"] is True
    assert only(scene, "after").data == {"scatter_add": 2, "crop_and_resize gradient": 2}


@claim("determinism.switch.takes-effect-at-once")
def test_takes_effect_at_once(scenes: Scenes) -> None:
    scene = scenes.play(_ops.before_and_after, workers=1)
    assert only(scene, "before")["scatter_add"] == 2
    assert only(scene, "with")["scatter_add"] == 1


@claim("determinism.switch.environment-variable")
def test_environment_variable(scenes: Scenes) -> None:
    scene = scenes.play(_models.by_environment, workers=1)
    assert only(scene, "is on")["answer"] is True
    assert only(scene, "refused")


@claim("determinism.recipe.two-lines")
def test_two_lines(scenes: Scenes) -> None:
    one, other = scenes.play(_models.program).ended(0, 0).parts
    steps = [[said.data for said in part.all("step")] for part in (one, other)]
    assert len(steps[0]) == 4
    assert steps[0] == steps[1]


@claim("determinism.recipe.seeds-needed")
def test_seeds_needed(scenes: Scenes) -> None:
    one, other = scenes.play(_models.program, seeded=False).ended(0, 0).parts
    assert one.one("begins")["weights"] != other.one("begins")["weights"]


@claim("determinism.recipe.sets-three-seeds")
def test_sets_three_seeds(scenes: Scenes) -> None:
    differ = only(scenes.play(_random.seeded, workers=1), "drawn")["differ"]
    assert not {"random", "numpy.random", "tf.random"} & set(differ)


@claim("determinism.recipe.seeds-keras-random")
def test_seeds_keras_random(scenes: Scenes) -> None:
    differ = only(scenes.play(_random.seeded, workers=1), "drawn")["differ"]
    assert not set(_KERAS) & set(differ)


_KERAS = ("keras.random.normal", "an initializer", "Dropout")


@claim("determinism.recipe.wrong-seeds-refused")
def test_wrong_seeds_refused(scenes: Scenes) -> None:
    raised = only(scenes.play(_random.seeded, workers=1), "refused")["raised"]
    assert set(raised.values()) == {"ValueError"}
