"""The classes beside TPUEmbedding."""

from __future__ import annotations

import pytest

from tfdist_kit.conformance.checks.tpu_embedding._configs import feature, kit
from tfdist_kit.conformance.marks import claim

pytestmark = pytest.mark.tfdist(workers=1, timeout=60)


@claim("tpu.relatives.outside")
def test_outside() -> None:
    for relative in (kit().TPUEmbeddingV0, kit().TPUEmbeddingV2):
        with pytest.raises(RuntimeError, match="TPUStrategy"):
            relative({"f": feature()}, kit().SGD(0.1))


@claim("tpu.relatives.updates-of-v0")
def test_updates_of_v0() -> None:
    for name in ("enqueue", "dequeue", "apply_gradients"):
        assert hasattr(kit().TPUEmbeddingV0, name), f"there is no {name}"
