"""What is not there that a claim needs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tfdist_kit.conformance.claims import Needs
from tfdist_kit.conformance.surroundings import Surroundings, surroundings

ALL = Surroundings("2.21.0", "3.15.1", "2.21.0", 2, True, "3.11", "Linux x86_64")


@pytest.mark.parametrize(
    ("needs", "changes", "missing"),
    [
        (Needs(workers=3, local_replicas=2, graph=True), {"gpus": 0, "tpu": False}, ""),
        (Needs(gpu=True), {"gpus": 1}, ""),
        (Needs(gpu=True), {"gpus": 0}, "a GPU"),
        (Needs(gpu=True, workers=2), {"gpus": 1}, "a GPU for each worker"),
        (Needs(tpu=True), {}, ""),
        (Needs(tpu=True), {"tpu": False}, "a TPU"),
        (Needs(keras=2), {}, ""),
        (Needs(keras=2), {"tf_keras": ""}, "Keras 2 (tf_keras)"),
        (Needs(keras=3), {}, ""),
        (Needs(keras=3), {"keras": "2.15.0"}, "Keras 3"),
        (Needs(keras=3), {"keras": ""}, "Keras 3"),
    ],
)
def test_missing(needs: Needs, changes: dict[str, Any], missing: str) -> None:
    assert replace(ALL, **changes).missing(needs) == missing


def test_what_is_seen_here() -> None:
    here = surroundings({"CUDA_VISIBLE_DEVICES": "0,1"})
    assert here.gpus == 2
    assert here.tensorflow.startswith("2.")
    assert set(here.to_dict()) == {"tensorflow", "keras", "tf_keras", "python", "machine"}
