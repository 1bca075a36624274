"""Input pipelines: in which order their elements come, and what runs side by side."""

from __future__ import annotations

import pytest

from tfdist_kit.conformance.checks.op_determinism import _data
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.scenes import Scenes

IN_ORDER = [0, 1, 2, 3]
STATEFUL = ("generator", "variable", "table", "python function")


def orders(scenes: Scenes, name: str) -> tuple[list[int], list[int]]:
    """The order of a pipeline's elements without the switch and with it."""
    without, with_it = scenes.play(_data.orders).ended(0, 0).parts
    return without.one(name)["order"], with_it.one(name)["order"]


def threads(scenes: Scenes, name: str, number: str = "most") -> tuple[int, int]:
    """How many threads were in a function without the switch and with it."""
    without, with_it = scenes.play(_data.side_by_side).ended(0, 0).parts
    return without.one(name)[number], with_it.one(name)[number]


def serial(scenes: Scenes, name: str, number: str = "most") -> None:
    """The switch makes a function run in one thread at a time."""
    without, with_it = threads(scenes, name, number)
    assert without > 1, "it has never run in parallel"
    assert with_it == 1, f"it still runs in parallel with {name}"


def parallel(scenes: Scenes, name: str, number: str = "most") -> None:
    """The switch lets a function run in several threads."""
    without, with_it = threads(scenes, name, number)
    assert without > 1, "it has never run in parallel"
    assert with_it > 1, f"it is serial with {name}"


@claim("determinism.data.without-the-switch")
def test_without_the_switch(scenes: Scenes) -> None:
    for name in ("map", "interleave", "option"):
        assert orders(scenes, name)[_data.WITHOUT] != IN_ORDER
    part = scenes.play(_data.augmented).ended(0, 0).parts[_data.WITHOUT]
    for name in ("random op", "generator"):
        assert part.one(name)["parallel"] != part.one(name)["serial"]


def overridden(scenes: Scenes, name: str) -> None:
    """The order is kept although the pipeline says that it need not be."""
    without, with_it = orders(scenes, name)
    assert sorted(without) == IN_ORDER != without, "the order is kept without the switch, too"
    assert with_it == IN_ORDER


@claim("determinism.data.map-argument")
def test_map_argument(scenes: Scenes) -> None:
    overridden(scenes, "map")


@claim("determinism.data.interleave-argument")
def test_interleave_argument(scenes: Scenes) -> None:
    overridden(scenes, "interleave")


@claim("determinism.data.batch-argument")
def test_batch_argument(scenes: Scenes) -> None:
    overridden(scenes, "batch")


@claim("determinism.data.option")
def test_option(scenes: Scenes) -> None:
    overridden(scenes, "option")


@claim("determinism.data.option-name")
@pytest.mark.tfdist(workers=1)
def test_option_name() -> None:
    import tensorflow as tf

    assert hasattr(tf.data, "Option"), "there is no tf.data.Option"


@claim("determinism.data.option-reads")
def test_option_reads(scenes: Scenes) -> None:
    part = scenes.play(_data.orders).ended(0, 0).parts[_data.WITH]
    assert part.one("reads")["deterministic"] is True, "it reads as it was set"


@claim("determinism.data.random-map")
def test_random_map(scenes: Scenes) -> None:
    serial(scenes, "map: random op")


@claim("determinism.data.random-map-in-cond")
def test_random_map_in_cond(scenes: Scenes) -> None:
    serial(scenes, "map: random op in tf.cond")


@claim("determinism.data.random-interleave")
def test_random_interleave(scenes: Scenes) -> None:
    parallel(scenes, "interleave: nothing")
    serial(scenes, "interleave: random op")


@claim("determinism.data.stateful-map")
@pytest.mark.parametrize("what", STATEFUL)
def test_stateful_map(scenes: Scenes, what: str) -> None:
    parallel(scenes, "map: nothing")
    serial(scenes, f"map: {what}")


@claim("determinism.data.stateful-interleave")
def test_stateful_interleave(scenes: Scenes) -> None:
    serial(scenes, "interleave: generator")


@claim("determinism.data.prefetch")
def test_prefetch(scenes: Scenes) -> None:
    parallel(scenes, "beside: nothing", "prefetched")
    serial(scenes, "beside: generator", "prefetched")


@claim("determinism.data.all-serial")
def test_all_serial(scenes: Scenes) -> None:
    parallel(scenes, "beside: nothing", "map")
    serial(scenes, "beside: generator", "map")


@claim("determinism.data.not-only-its-own-map")
@pytest.mark.parametrize("other", ["map", "interleave", "prefetched"])
def test_not_only_its_own_map(scenes: Scenes, other: str) -> None:
    serial(scenes, "beside: generator", other)


@claim("determinism.data.legacy-random-spares")
@pytest.mark.parametrize("other", ["map", "interleave", "prefetched"])
def test_legacy_random_spares(scenes: Scenes, other: str) -> None:
    parallel(scenes, "beside: random op", other)


@claim("determinism.data.other-stateful-ops")
@pytest.mark.parametrize("source", ["from_generator", "from_tensors in interleave"])
def test_other_stateful_ops(scenes: Scenes, source: str) -> None:
    without, with_it = scenes.play(_data.other_sources).ended(0, 0).parts
    assert without.one(source)["most"] > 1
    assert with_it.one(source)["most"] == 1


@claim("determinism.data.stateless-random")
def test_stateless_random(scenes: Scenes) -> None:
    parallel(scenes, "map: stateless random op")


@claim("determinism.data.hoisted-random-op")
def test_hoisted_random_op(scenes: Scenes) -> None:
    parallel(scenes, "beside: random op", "hoisted")


@claim("determinism.data.hoisted-generator")
def test_hoisted_generator(scenes: Scenes) -> None:
    parallel(scenes, "beside: generator", "hoisted")
