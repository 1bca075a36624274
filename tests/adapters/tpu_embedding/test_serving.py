"""Lookups without a step: the same as a step's, in a graph and in a SavedModel; and Adam's rate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.adapters.cluster import run_workers

HERE = "tests.adapters.tpu_embedding.served"
ROUNDING = 1e-6


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].shape == value.shape, name
        np.testing.assert_allclose(found[name], value, rtol=ROUNDING, atol=ROUNDING, err_msg=name)


def test_a_lookup_gives_what_a_step_gives() -> None:
    [found] = run_workers(f"{HERE}:lookups", workers=0)
    for each in found.values():
        assert_same(each["lookup"], each["step"])
        assert_same(each.get("graph", each["step"]), each["step"])
    assert "graph" in found["mean"]
    assert "graph" in found["quantized"]
    plain = found["mean"]["lookup"]
    for other in ("sum", "sqrtn", "quantized"):
        assert not np.allclose(plain["weighted"], found[other]["lookup"]["weighted"])
    assert plain["dense_sequence"].shape == (4, 3)
    assert plain["deep"].shape == (4, 2, 3)
    assert plain["folded"].shape == (2, 2, 3)


def test_a_saved_model_gives_what_a_step_gives(tmp_path: Path) -> None:
    [expected] = run_workers(f"{HERE}:exported", workers=0, folder=str(tmp_path))
    [found] = run_workers(f"{HERE}:reloaded", workers=0, folder=str(tmp_path))
    activations, answer, above, below, names = found
    assert_same(activations, expected[0])
    assert_same(answer, expected[1])
    for said in (above, below):
        assert "ids of feature dense are not in table table, which has 5 rows" in said
    assert names == ["_CHECKPOINTABLE_OBJECT_GRAPH", "tables/table/.ATTRIBUTES/VARIABLE_VALUE"]


def test_what_cannot_be_looked_up_is_said() -> None:
    [said] = run_workers(f"{HERE}:refused", workers=0)
    expected = [
        "UsageError TFD001: features has 'unknown', which is not one of 'deep', 'dense', ",
        "UsageError TFD001: feature dense is dense, of shape (1, 2), whose last axis must be 1",
        "UsageError TFD001: feature dense has ids of type float32",
        "EmbeddingError TFD080: ids of feature dense are not in table table, which has 5 rows",
        "EmbeddingError TFD080: ids of feature sparse are not in table table",
        "UsageError TFD001: feature dense is dense and has a weight",
        "UsageError TFD001: weights has 'other', but features has 'dense'",
        "UsageError TFD001: feature sparse is a SparseTensor, its weight a RaggedTensor",
        "EmbeddingError TFD080: the rows of output_shape (4, 2) of feature shaped cannot be",
        "UsageError TFD001: feature ragged is a RaggedTensor of rank 3",
        "UsageError TFD001: feature dense is of type NoneType",
        "UsageError TFD001: feature dense has parts, such as 'dense/0/0', where one tensor should",
        "UsageError TFD001: feature dense has parts, such as 'dense/part', where one tensor",
        "UsageError TFD001: feature dense is of type _RangeDataset",
        "UsageError TFD001: feature dense has ids of type string",
        "UsageError TFD001: features is {}: there is no feature in it",
        "UsageError TFD001: features is {'dense': []}: there is no feature in it",
        "UsageError TFD001: features is one NoneType, where feature_config has 'deep', 'dense', ",
        "UsageError TFD001: features is one EagerTensor, where feature_config has 'deep', ",
        "UsageError TFD001: the weight of feature sparse has parts, such as 'sparse/0/0', where",
        "UsageError TFD001: weights is one SparseTensor, but features has 'sparse'",
        "UsageError TFD001: the weight of feature sparse is string",
        "UsageError TFD001: the weight of feature ragged is float32 of rank 3",
        "UsageError TFD001: feature (the only one) is of type NoneType",
        "UsageError TFD001: feature (the only one) has parts, such as '0/0', where one tensor",
        "UsageError TFD001: embedding is a Module",
    ]
    for text, start in zip(said, expected, strict=True):
        assert text.startswith(start)


def test_what_cannot_be_exported_is_said_and_nothing_is_written(tmp_path: Path) -> None:
    [said] = run_workers(f"{HERE}:not_exported", workers=0, folder=str(tmp_path))
    expected = [
        "UsageError TFD001: features is {}: there is no feature in it",
        "UsageError TFD001: features is one NoneType, where feature_config has 'deep', 'dense', ",
        "UsageError TFD001: the spec of feature dense is of type str",
        "UsageError TFD001: the spec of feature dense is of type EagerTensor",
        "UsageError TFD001: feature dense has parts, such as 'dense/0', where one tensor should",
        "UsageError TFD001: the spec of feature dense is of type NoneType",
        "UsageError TFD001: features has 'other', which is not one of 'deep', 'dense', ",
        "UsageError TFD001: features is one TensorSpec, where feature_config has 'deep', ",
        "UsageError TFD001: feature dense has ids of type float32",
        "UsageError TFD001: feature dense is a Tensor of unknown rank",
        "UsageError TFD001: the spec of the weights of feature sparse is of type NoneType",
        "UsageError TFD001: the spec of the weights of feature sparse is of type str",
        "UsageError TFD001: weights has 'dense', but features has 'sparse'",
        "UsageError TFD001: then is 3",
        "UsageError TFD001: embedding is a Module",
        "UsageError TFD001: folder is None",
        "[]",
    ]
    for text, start in zip(said, expected, strict=True):
        assert text.startswith(start)


def test_adam_with_the_corrected_rate_is_keras_adam() -> None:
    [found] = run_workers(f"{HERE}:bias_correction", workers=0)
    np.testing.assert_allclose(found["corrected"], found["keras"], atol=2e-6)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(found["plain"], found["keras"], atol=1e-2)
