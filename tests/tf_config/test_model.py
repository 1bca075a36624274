from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tfdist_kit.tf_config
from tests.tf_config.cases import CASES, GOOD, TEXT, config
from tfdist_kit import TFConfigError, UsageError
from tfdist_kit.tf_config import MISTAKES, ClusterSpec, Task, TFConfig

DOCS = Path(__file__).parents[2] / "docs" / "tf_config.md"
ERRORS = [
    (code, wrong)
    for code, pairs in CASES.items()
    for wrong, _ in pairs
    if MISTAKES[code].severity == "error"
]
WARNINGS = [
    wrong
    for code, pairs in CASES.items()
    for wrong, _ in pairs
    if MISTAKES[code].severity == "warning" and wrong is not None
]

PLATFORM = {
    "cluster": {"chief": ["c:1"], "worker": ["w:1"]},
    "task": {"type": "worker", "index": 0, "cloud": "c-1", "trial": ""},
    "environment": "cloud",
    "job": {"z": [1, None], "a": {"b": True}},
    "rpc_layer": "grpc",
}


def test_what_is_read() -> None:
    parsed = TFConfig.parse(TEXT)
    assert parsed == TFConfig(ClusterSpec({"worker": ["a:1", "b:2"]}), Task("worker", 0))
    assert parsed.to_json() == TEXT


@pytest.mark.parametrize("given", [GOOD, PLATFORM, config(index="1"), *WARNINGS])
def test_what_is_written_reads_the_same(given: Any) -> None:
    parsed = TFConfig.parse(given)
    assert str(TFConfig.parse(parsed.to_json())) == str(parsed)
    assert TFConfig.parse(parsed.to_json()).to_json() == parsed.to_json()


def test_what_platforms_add_is_kept() -> None:
    assert json.loads(TFConfig.parse(PLATFORM).to_json()) == PLATFORM


def test_equal_configurations_are_written_equally() -> None:
    turned = {key: PLATFORM[key] for key in reversed(PLATFORM)}
    turned["cluster"] = {"worker": {"0": "w:1"}, "chief": ["c:1"]}
    turned["job"] = {"a": {"b": True}, "z": [1, None]}
    one, other = TFConfig.parse(PLATFORM), TFConfig.parse(turned)
    assert one == other
    assert hash(one) == hash(other)
    assert one.to_json() == other.to_json()
    assert pickle.loads(pickle.dumps(one)) == one


@pytest.mark.parametrize(("code", "wrong"), ERRORS)
def test_what_cannot_work_is_refused(code: str, wrong: Any) -> None:
    with pytest.raises(TFConfigError, match=code) as caught:
        TFConfig.parse(wrong)
    assert [getattr(finding, "code", None) for finding in caught.value.findings] == [code]


def test_the_environment_is_the_one_handed_in() -> None:
    assert TFConfig.from_env({"TF_CONFIG": TEXT}) == TFConfig.parse(TEXT)
    assert TFConfig.from_env({}) == TFConfig()
    assert TFConfig().to_json() == "{}"
    for environ, code in (({"TF_CONFIG": "{}"}, "TFC005"), ({"tf_config": TEXT}, "TFC070")):
        with pytest.raises(TFConfigError, match=code):
            TFConfig.from_env(environ)


@pytest.mark.parametrize("arguments", [("worker", 1), (Task("worker", 1),), ("worker:1",)])
def test_each_task_has_its_own(arguments: tuple[Any, ...]) -> None:
    other = TFConfig.parse(PLATFORM | {"cluster": {"worker": ["a:1", "b:2"]}}).for_task(*arguments)
    assert other.task == Task("worker", 1)
    assert other.to_dict()["task"] == {"type": "worker", "index": 1, "cloud": "c-1", "trial": ""}


def test_a_cluster_alone_is_a_model_for_its_tasks() -> None:
    cluster = ClusterSpec.local(2, ports=[1, 2])
    assert TFConfig(cluster).to_dict() == {"cluster": cluster.to_dict()}
    assert TFConfig(cluster).for_task("worker", 1) == TFConfig(cluster, Task("worker", 1))


@pytest.mark.parametrize(
    ("task", "code"), [("worker:2", "TFC068"), ("chief:0", "TFC060"), ("evaluator:0", "TFC061")]
)
def test_a_task_that_the_cluster_does_not_have(task: str, code: str) -> None:
    with pytest.raises(TFConfigError, match=code):
        TFConfig.parse(GOOD).for_task(task)


def test_a_parameter_server_has_none() -> None:
    with pytest.raises(TFConfigError, match="TFC062"):
        TFConfig(ClusterSpec({"worker": ["w:1"], "ps": ["p:1"]})).for_task("ps", 0)


def test_a_task_needs_a_cluster() -> None:
    with pytest.raises(TFConfigError, match="worker:0 has no cluster"):
        TFConfig(task=Task("worker", 0))
    with pytest.raises(UsageError, match="the task type 'workers'"):
        TFConfig.parse(GOOD).for_task("workers", 0)


def test_tensorflow_is_not_imported() -> None:
    code = "import sys, tfdist_kit.tf_config; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_every_public_name_is_in_the_docs() -> None:
    told = DOCS.read_text(encoding="utf-8")
    assert [name for name in tfdist_kit.tf_config.__all__ if f"`{name}`" not in told] == []
