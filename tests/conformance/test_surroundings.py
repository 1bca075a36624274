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


@pytest.mark.parametrize(
    ("needs", "tpu", "subject", "missing", "shown_by"),
    [
        (Needs(embedding_engine=True), True, "stock", "", "stock"),
        (Needs(embedding_engine=True), False, "stock", "a TPU; --subject adapter", "adapter"),
        (Needs(embedding_engine=True), False, "adapter", "", "adapter"),
        (Needs(embedding_engine=True, tpu=True), False, "adapter", "a TPU", "adapter"),
        (Needs(tpu=True), False, "stock", "a TPU", "stock"),
        (Needs(), False, "stock", "", "stock"),
    ],
)
def test_the_adapter_stands_in_for_the_embedding_engine(
    needs: Needs, tpu: bool, subject: str, missing: str, shown_by: str
) -> None:
    here = replace(ALL, tpu=tpu)
    found = here.missing(needs, subject)
    assert found.startswith(missing)
    assert bool(found) == bool(missing)
    assert here.subject_for(needs, subject) == shown_by


def test_what_is_seen_here() -> None:
    here = surroundings({"CUDA_VISIBLE_DEVICES": "0,1"})
    assert here.gpus == 2
    assert here.tensorflow.startswith("2.")
    assert set(here.to_dict()) == {"tensorflow", "keras", "tf_keras", "python", "machine"}
