"""Several workers, which the page does not speak of."""

from __future__ import annotations

from tfdist_kit.conformance.checks.op_determinism import _workers
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.scenes import Part, Scene, Scenes


def steps(part: Part) -> list[dict[str, str]]:
    """What a worker has said of each step."""
    found = [dict(said.data) for said in part.all("step")]
    assert len(found) == _workers.STEPS
    return found


def repeat(scenes: Scenes, workers: int) -> None:
    """Two runs of the same training are alike, step by step and worker by worker."""
    one, other = (scenes.play(_workers.train, workers=workers, run=run) for run in range(2))
    for scene in (one, other):
        scene.ended(*(0,) * workers)
    assert list(map(steps, one.parts)) == list(map(steps, other.parts))


@claim("determinism.workers.two-repeat")
def test_two_repeat(scenes: Scenes) -> None:
    repeat(scenes, 2)


@claim("determinism.workers.four-repeat")
def test_four_repeat(scenes: Scenes) -> None:
    repeat(scenes, 4)


@claim("determinism.workers.sums")
def test_sums(scenes: Scenes) -> None:
    parts = [
        part
        for run in range(2)
        for part in scenes.play(_workers.train, workers=2, run=run).ended(0, 0).parts
    ]
    sums = [part.one("ring")["sums"] for part in parts]
    assert [len(each) for each in sums[0]] == [1] * len(_workers.SIZES)
    assert all(each == sums[0] for each in sums)


@claim("determinism.workers.other-sizes")
def test_other_sizes(scenes: Scenes) -> None:
    scene = scenes.play(_workers.train, workers=1).ended(0)
    ends = [steps(part)[-1]["weights"] for part in (scene.parts[0], *pair(scenes).parts)]
    assert len(set(ends)) == 1, "another number of workers gives other bits"


def pair(scenes: Scenes) -> Scene:
    """A training of two workers."""
    return scenes.play(_workers.train, workers=2, run=0).ended(0, 0)


@claim("determinism.workers.same-weights")
def test_same_weights(scenes: Scenes) -> None:
    one, other = pair(scenes).parts
    assert steps(one) == steps(other)


@claim("determinism.workers.same-dropout-mask")
def test_same_dropout_mask(scenes: Scenes) -> None:
    one, other = (part.one("dropout")["mask"] for part in pair(scenes).parts)
    assert one == other


def noticed(scenes: Scenes, what: str, word: str) -> None:
    """That a worker is set up otherwise is told on both, in words that name it."""
    for part in scenes.play(_workers.unlike, what=what, drain=1.0).parts:
        texts = [said["text"] for said in part.all("raised")]
        told = f"rank {part.rank} has not noticed it"
        assert any(word in text for text in texts), f"{told}: {texts}"


@claim("determinism.workers.other-seed")
def test_other_seed(scenes: Scenes) -> None:
    noticed(scenes, "seed", "seed")


@claim("determinism.workers.switch-on-one")
def test_switch_on_one(scenes: Scenes) -> None:
    noticed(scenes, "switch", "determinism")


@claim("determinism.workers.unseeded-one")
def test_unseeded_one(scenes: Scenes) -> None:
    noticed(scenes, "unseeded", "seed")


@claim("determinism.workers.unseeded-without")
def test_unseeded_without(scenes: Scenes) -> None:
    one, other = scenes.play(_workers.unlike, what="off").ended(0, 0).parts
    assert one.one("begins")["weights"] == other.one("begins")["weights"]
