"""The class: how it is made, and for which strategies."""

from __future__ import annotations

import inspect

import pytest

from tfdist_kit.conformance.checks.preemption_checkpoint import _alone, _programs
from tfdist_kit.conformance.checks.preemption_checkpoint._training import weight_after
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.scenes import Scene, Scenes

here = pytest.mark.tfdist(workers=1, timeout=60)
NAME = "PreemptionCheckpointHandler"


@here
@claim("preempt.class.exported")
def test_exported() -> None:
    import tensorflow as tf

    assert inspect.isclass(getattr(tf.distribute.experimental, NAME))
    assert inspect.isclass(tf.distribute.experimental.TerminationConfig)


@here
@claim("preempt.class.constructor")
def test_constructor() -> None:
    import tensorflow as tf

    given = inspect.signature(tf.distribute.experimental.PreemptionCheckpointHandler).parameters
    assert [(one.name, one.default) for one in given.values()] == [
        ("cluster_resolver", inspect.Parameter.empty),
        ("checkpoint_or_checkpoint_manager", inspect.Parameter.empty),
        ("checkpoint_dir", None),
        ("termination_config", None),
    ]


@here
@claim("preempt.class.methods")
def test_methods() -> None:
    import tensorflow as tf

    found = tf.distribute.experimental.PreemptionCheckpointHandler
    shown = {
        name: list(inspect.signature(getattr(found, name)).parameters)
        for name in ("run", "save_checkpoint_if_preempted", "watch_preemption_scope")
    }
    assert shown == {
        "run": ["self", "distributed_train_function", "args", "kwargs"],
        "save_checkpoint_if_preempted": ["self", "args", "kwargs"],
        "watch_preemption_scope": ["self"],
    }


@here
@claim("preempt.class.not-in-v1")
def test_not_in_v1() -> None:
    import tensorflow as tf

    assert not hasattr(tf.compat.v1.distribute.experimental, NAME)


@claim("preempt.args.checkpoint-needs-directory")
@pytest.mark.parametrize("directory", [None, ""])
def test_checkpoint_needs_directory(scenes: Scenes, directory: str | None) -> None:
    [part] = scenes.play(_alone.made_with, workers=1, directory=directory).ended(1).parts
    assert "checkpoint_dir" in part.one("raised")["text"]


@claim("preempt.args.checkpoint-or-manager")
def test_checkpoint(scenes: Scenes) -> None:
    preempted = scenes.play(_programs.train, notices=((1, 3),)).ended(42, 42)
    again = scenes.play(_programs.train, after=preempted).ended(0, 0)
    same_step(preempted, again)


@claim("preempt.args.checkpoint-or-manager")
def test_manager(scenes: Scenes) -> None:
    preempted = scenes.play(_programs.train, notices=((1, 3),), keep=2).ended(42, 42)
    again = scenes.play(_programs.train, after=preempted, keep=2).ended(0, 0)
    same_step(preempted, again)


def same_step(before: Scene, after: Scene) -> None:
    """Every worker has restored what it had."""
    found = [part.one("restored")["step"] for part in after.parts]
    assert found == [part.one("at")["step"] for part in before.parts]
    assert min(found) >= 3


@claim("preempt.args.manager-needs-no-directory")
def test_manager_needs_no_directory(scenes: Scenes) -> None:
    scene = scenes.play(_alone.made_with, workers=1, keep=2).ended(42)
    assert scene.parts[0].one("made")


@claim("preempt.args.termination-config-optional")
def test_termination_config_optional(scenes: Scenes) -> None:
    scenes.play(_programs.train, notices=((1, 3),)).ended(42, 42)


@claim("preempt.args.unusable-directory")
def test_unusable_directory(scenes: Scenes) -> None:
    [part] = scenes.play(_alone.made_with, workers=1, file=True).parts
    assert not part.all("made"), "it was made, although nothing can be saved there"
    assert "in-the-way" in part.one("raised")["text"]


@claim("preempt.strategies.multi-worker-mirrored")
@pytest.mark.parametrize(("workers", "chief"), [(1, False), (2, False), (3, False), (1, True)])
def test_multi_worker_mirrored(scenes: Scenes, workers: int, chief: bool) -> None:
    size, last = workers + chief, workers + chief - 1
    scene = scenes.play(_programs.train, workers=workers, chief=chief, notices=((last, 3),))
    scene.ended(*(42,) * size)
    saved = scene.parts[0].one("saved")
    assert saved["weight"] == weight_after(int(saved["step"]), size)


@claim("preempt.strategies.multi-worker-mirrored")
def test_without_a_cluster(scenes: Scenes) -> None:
    scene = scenes.play(_alone.one_step, workers=1).ended(42)
    assert scene.parts[0].one("saved")["step"] >= 2


@claim("preempt.strategies.no-others")
@pytest.mark.parametrize("strategy", ["mirrored", "one-device", "default"])
def test_no_others(scenes: Scenes, strategy: str) -> None:
    [part] = scenes.play(_alone.one_step, workers=1, strategy=strategy).parts
    assert part.all("raised"), "it is not refused"


@claim("preempt.strategies.no-parameter-server")
def test_no_parameter_server(scenes: Scenes) -> None:
    [part] = scenes.play(_alone.parameter_server, workers=1).ended(0).parts
    assert "ParameterServer" in part.one("refused")["text"]


@claim("preempt.class.inside-or-outside-scope")
@pytest.mark.parametrize("inside", [True, False])
def test_inside_or_outside_scope(scenes: Scenes, inside: bool) -> None:
    scene = scenes.play(_programs.train, notices=((0, 3),), inside=inside).ended(42, 42)
    saved = scene.parts[0].one("saved")
    assert saved["weight"] == weight_after(int(saved["step"]))
