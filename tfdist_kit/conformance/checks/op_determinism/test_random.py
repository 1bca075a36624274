"""Random numbers, and where they are drawn without a seed."""

from __future__ import annotations

from collections.abc import Mapping

from tfdist_kit.conformance.checks.op_determinism import _random
from tfdist_kit.conformance.checks.op_determinism.test_switch import only
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.scenes import Scenes


def unseeded(scenes: Scenes, word: str) -> Mapping[str, str]:
    """What raises which error when no seed was set."""
    raised: Mapping[str, str] = only(scenes.play(_random.unseeded, workers=1), word)["raised"]
    return raised


@claim("determinism.details.unseeded-raises")
def test_unseeded_raises(scenes: Scenes) -> None:
    raised = unseeded(scenes, "tensors")
    assert len(raised) == 19
    assert set(raised.values()) == {"RuntimeError"}, raised


@claim("determinism.details.unseeded-generators-raise")
def test_unseeded_generators_raise(scenes: Scenes) -> None:
    raised = unseeded(scenes, "generators")
    assert len(raised) == 5
    assert set(raised.values()) == {"RuntimeError"}, raised


@claim("determinism.details.raw-ops")
def test_raw_ops(scenes: Scenes) -> None:
    assert unseeded(scenes, "exceptions")["RandomStandardNormal"] == "RuntimeError"


@claim("determinism.details.unseeded-pooling")
def test_unseeded_pooling(scenes: Scenes) -> None:
    raised = unseeded(scenes, "exceptions")
    names = ("fractional_avg_pool", "FractionalMaxPool", "NonDeterministicInts")
    assert [raised[name] for name in names] == ["RuntimeError"] * 3, "drawn by chance, in silence"


@claim("determinism.details.own-seed-demanded")
def test_own_seed_demanded(scenes: Scenes) -> None:
    raised = only(scenes.play(_random.seeded, workers=1), "demanding")["raised"]
    names = ("sample_distorted_bounding_box", "fractional_max_pool")
    assert [raised[name] for name in names] == ["", ""], "refused although the seed is set"


@claim("determinism.details.timestamp")
def test_timestamp(scenes: Scenes) -> None:
    assert unseeded(scenes, "exceptions")["timestamp"] == "FailedPreconditionError"


@claim("determinism.details.keras-3-unseeded")
def test_keras_3_unseeded(scenes: Scenes) -> None:
    raised = unseeded(scenes, "keras 3")
    assert set(raised.values()) == {"RuntimeError"}, "Keras 3 draws without a seed"


@claim("determinism.details.keras-3-by-the-tensorflow-seed")
def test_keras_3_by_the_tensorflow_seed(scenes: Scenes) -> None:
    parts = scenes.play(_random.keras_by_the_tensorflow_seed).ended(0, 0).parts
    found = len({part.one("weights")["result"] for part in parts})
    assert found == 1, "two runs begin with other weights"


@claim("determinism.details.python-and-numpy-silent")
def test_python_and_numpy_silent(scenes: Scenes) -> None:
    assert set(unseeded(scenes, "python and numpy").values()) == {""}


@claim("determinism.details.order-of-random-ops")
def test_order_of_random_ops(scenes: Scenes) -> None:
    assert only(scenes.play(_random.seeded, workers=1), "order")["moved"] is True


@claim("determinism.models.default-rng")
def test_default_rng(scenes: Scenes) -> None:
    differ = only(scenes.play(_random.seeded, workers=1), "drawn")["differ"]
    assert "numpy.random.default_rng" in differ


@claim("determinism.models.unseeded-generators-differ")
def test_unseeded_generators_differ(scenes: Scenes) -> None:
    parts = scenes.play(_random.outside).ended(0, 0).parts
    for word in ("from a new generator", "unseeded"):
        one, other = (part.one(word)["result"] for part in parts)
        assert one != other


@claim("determinism.models.outside-tensorflow")
def test_outside_tensorflow(scenes: Scenes) -> None:
    parts = scenes.play(_random.outside).ended(0, 0).parts
    one, other = (part.one("from the system")["result"] for part in parts)
    assert one != other
