"""What ops give when they are run again, and which of them refuse to run."""

from __future__ import annotations

import pytest

from tfdist_kit.conformance.checks.op_determinism import _data, _gpu, _ops
from tfdist_kit.conformance.checks.op_determinism.test_switch import only
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.scenes import Scenes

FAMILIES = (
    *("reductions", "segments", "scatters", "convolutions", "pools", "norms", "images"),
    *("matrices", "sparse", "losses", "others"),
)
CASES = 91


@claim("determinism.ops.same-bits")
@pytest.mark.parametrize("family", FAMILIES)
def test_same_bits(scenes: Scenes, family: str) -> None:
    one, other = scenes.play(_ops.sweep).ended(0, 0).parts
    for part in (one, other):
        [found] = [said for said in part.all("family") if said["name"] == family]
        assert found["differ"] == []
    results = [
        {said["name"]: said["results"] for said in part.all("family")} for part in (one, other)
    ]
    assert results[0][family] == results[1][family], "another process has other results"


@claim("determinism.ops.same-bits")
def test_the_sweep_is_whole(scenes: Scenes) -> None:
    found = scenes.play(_ops.sweep).ended(0, 0).parts[0].all("family")
    assert [said["name"] for said in found] == list(FAMILIES)
    assert sum(len(said["results"]) for said in found) == CASES


def bad(scenes: Scenes) -> dict[str, int]:
    """How many results each of the ops has given that are known to differ; an error counts as 0."""
    [part] = scenes.play(_ops.bad_ops, workers=1).ended(0).parts
    return {said["name"]: said.data.get("results", 0) for said in part.all("bad")}


@claim("determinism.ops.weighted-bincount")
@pytest.mark.parametrize("name", ["math.bincount", "Bincount", "DenseBincount"])
def test_weighted_bincount(scenes: Scenes, name: str) -> None:
    assert bad(scenes)[name] == 1, "the same weighted counts have other bits"


@claim("determinism.ops.transposed-sparse-product")
@pytest.mark.parametrize("name", ["transpose_a", "adjoint_a"])
def test_transposed_sparse_product(scenes: Scenes, name: str) -> None:
    assert bad(scenes)[name] == 1, "the same product has other bits"


@claim("determinism.errors.not-all-raise")
def test_not_all_raise(scenes: Scenes) -> None:
    assert bad(scenes)["math.bincount"] == 2


@claim("determinism.ops.may-differ-without")
def test_may_differ_without(scenes: Scenes) -> None:
    found = only(scenes.play(_ops.before_and_after, workers=1), "before")
    assert found.data == {"scatter_add": 2, "crop_and_resize gradient": 2}


@claim("determinism.ops.another-algorithm")
def test_another_algorithm(scenes: Scenes) -> None:
    assert only(scenes.play(_ops.before_and_after, workers=1), "changed")["names"]


@claim("determinism.ops.steady-without")
def test_steady_without(scenes: Scenes) -> None:
    assert only(scenes.play(_ops.always_steady, workers=1), "differ")["names"] == []


@claim("determinism.ops.compiled-by-xla")
def test_compiled_by_xla(scenes: Scenes) -> None:
    assert len(only(scenes.play(_ops.compiled, workers=1), "compiled")["results"]) == 1


@claim("determinism.errors.unimplemented")
def test_unimplemented(scenes: Scenes) -> None:
    refused = only(scenes.play(_ops.compiled, workers=1), "refused")
    assert refused["type"] == "UnimplementedError"
    assert "deterministic" in refused["text"]


@claim("determinism.errors.names-the-device")
def test_names_the_device(scenes: Scenes) -> None:
    text = only(scenes.play(_ops.compiled, workers=1), "refused")["text"]
    assert "GPU" not in text, "it blames a GPU"


@claim("determinism.example.cross-entropy")
def test_example(scenes: Scenes) -> None:
    scenes.play(_ops.example, workers=1).ended(0)


@claim("determinism.details.same-state")
def test_same_state(scenes: Scenes) -> None:
    found = only(scenes.play(_ops.state, workers=1), "read")
    assert found["same"] == 1
    assert found["other"] is True


@claim("determinism.details.side-effects")
def test_side_effects(scenes: Scenes) -> None:
    assert only(scenes.play(_ops.before_and_after, workers=1), "with")["scatter_add"] == 1


@claim("determinism.details.performance")
def test_performance(scenes: Scenes) -> None:
    assert only(scenes.play(_ops.durations, workers=1), "took")["different"] > 1


@claim("determinism.cost.slower")
def test_slower(scenes: Scenes) -> None:
    parts = scenes.play(_data.side_by_side).ended(0, 0).parts
    without, with_it = (part.one("map: generator")["most"] for part in parts)
    assert without > with_it == 1


@claim("determinism.cost.orders-of-magnitude")
def test_orders_of_magnitude(scenes: Scenes) -> None:
    parts = scenes.play(_data.many_threads).ended(0, 0).parts
    without, with_it = (part.one("many")["most"] for part in parts)
    assert without >= 100 * with_it


@claim("determinism.ops.gpu-threads")
def test_gpu_threads(scenes: Scenes) -> None:
    scene = scenes.play(_gpu.threads, workers=1)
    assert 2 in only(scene, "before").data.values()
    assert set(only(scene, "with").data.values()) == {1}


@claim("determinism.errors.unimplemented-on-gpu")
def test_unimplemented_on_gpu(scenes: Scenes) -> None:
    [part] = scenes.play(_gpu.unimplemented, workers=1).ended(0).parts
    raised = {said["name"]: said["raised"] for said in part.all("op")}
    assert set(raised.values()) == {"UnimplementedError"}, raised


@claim("determinism.example.without-on-gpu")
def test_example_without_on_gpu(scenes: Scenes) -> None:
    assert only(scenes.play(_gpu.example_without, workers=1), "failed")
