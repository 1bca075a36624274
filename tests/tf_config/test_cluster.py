from __future__ import annotations

import pickle
from typing import Any

import pytest

from tfdist_kit import TFConfigError, UsageError
from tfdist_kit.tf_config import ClusterSpec, Finding, Task

FULL = ClusterSpec(
    {"ps": ["p:1"], "evaluator": ["e:1"], "worker": ["w:1", "w:2"], "chief": ["c:1"]}
)


def names(tasks: tuple[Task, ...]) -> list[str]:
    return [str(task) for task in tasks]


def test_a_task_reads_what_it_writes() -> None:
    assert Task.parse("worker:1") == Task("worker", 1)
    assert str(Task.parse("chief:0")) == "chief:0"


@pytest.mark.parametrize("text", ["worker", "", ":", "worker:", "worker:x", "worker:1.5"])
def test_a_task_that_is_not_type_and_index(text: str) -> None:
    with pytest.raises(UsageError, match=f"the task '{text}' is not written as type:index"):
        Task.parse(text)


@pytest.mark.parametrize("kind", ["Worker", "workers", "master", ""])
def test_a_task_of_an_unknown_type(kind: str) -> None:
    with pytest.raises(UsageError, match=rf"the task type '{kind}' is not one .*\n  hint: .*chief"):
        Task(kind, 0)


@pytest.mark.parametrize("index", [-1, True, 1.0, "1", None])
def test_a_task_index_that_is_no_whole_number(index: Any) -> None:
    with pytest.raises(UsageError, match=f"the task index {index!r} is not a whole number"):
        Task("worker", index)


def test_tasks_come_in_rank_order() -> None:
    assert names(FULL.tasks) == ["chief:0", "worker:0", "worker:1", "evaluator:0", "ps:0"]
    assert names(FULL.training_tasks) == ["chief:0", "worker:0", "worker:1"]
    assert FULL.num_training_tasks == 3
    assert list(FULL.to_dict()) == ["chief", "worker", "evaluator", "ps"]


@pytest.mark.parametrize(
    ("jobs", "chief"),
    [
        ({"worker": ["w:1"], "chief": ["c:1"]}, Task("chief", 0)),
        ({"worker": ["w:1", "w:2"]}, Task("worker", 0)),
        ({"evaluator": ["e:1"]}, None),
    ],
)
def test_who_acts_as_chief(jobs: dict[str, list[str]], chief: Task | None) -> None:
    assert ClusterSpec(jobs).chief == chief


def test_a_local_cluster_has_its_ports_in_rank_order() -> None:
    cluster = ClusterSpec.local(workers=2, chief=True, evaluator=True, ports=[1, 2, 3, 4])
    assert cluster.to_dict() == {
        "chief": ["localhost:1"],
        "worker": ["localhost:2", "localhost:3"],
        "evaluator": ["localhost:4"],
    }


def test_a_local_cluster_on_an_ipv6_address() -> None:
    assert ClusterSpec.local(1, ports=[5], host="::1").to_dict() == {"worker": ["[::1]:5"]}


def test_a_chief_can_train_alone() -> None:
    assert names(ClusterSpec.local(0, chief=True, ports=[1]).tasks) == ["chief:0"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"workers": 0, "ports": []}, "the number of workers is 0"),
        ({"workers": -1, "chief": True, "ports": []}, "the number of workers is -1"),
        ({"workers": 2, "ports": [1]}, "1 addresses were given for 2 tasks"),
        ({"workers": 1, "chief": True, "ports": [1, 2, 3]}, "3 addresses were given for 2 tasks"),
    ],
)
def test_a_local_cluster_that_cannot_be(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ClusterSpec.local(**arguments)


def test_an_address_of_a_task() -> None:
    assert FULL.address(Task("worker", 1)) == "w:2"
    assert Task("worker", 1) in FULL
    assert Task("worker", 2) not in FULL
    with pytest.raises(
        UsageError, match=r"worker:2 is not in the cluster\n.*tasks are: chief:0, w"
    ):
        FULL.address(Task("worker", 2))


def test_a_cluster_without_one_of_its_jobs() -> None:
    assert names(FULL.without("ps").tasks) == ["chief:0", "worker:0", "worker:1", "evaluator:0"]
    assert FULL.without("ps").without("ps") == FULL.without("ps")
    with pytest.raises(TFConfigError, match="TFC014"):
        ClusterSpec({"ps": ["p:1"]}).without("ps")


def test_addresses_may_be_given_by_index() -> None:
    by_index: Any = {"worker": {"1": "b:2", 0: "a:1"}}
    assert ClusterSpec(by_index) == ClusterSpec({"worker": ["a:1", "b:2"]})


def test_a_cluster_is_a_value() -> None:
    same = ClusterSpec({job: list(FULL.jobs[job]) for job in sorted(FULL.jobs)})
    assert same == FULL
    assert hash(same) == hash(FULL)
    assert pickle.loads(pickle.dumps(FULL)) == FULL
    assert FULL.without("ps") != FULL


def test_what_was_handed_in_may_change_later() -> None:
    jobs = {"worker": ["a:1"]}
    cluster = ClusterSpec(jobs)
    jobs["worker"].append("b:2")
    assert cluster.num_training_tasks == 1
    with pytest.raises(TypeError, match="does not support item assignment"):
        cluster.jobs["worker"] = ()  # type: ignore[index]


def test_a_cluster_that_cannot_work_is_refused() -> None:
    with pytest.raises(TFConfigError, match=r"TFC038 at cluster\.worker\[1\], given .b") as caught:
        ClusterSpec({"worker": ["a:1", "b", "c"]})
    assert "(and 1 more)" in str(caught.value)
    findings = [each for each in caught.value.findings if isinstance(each, Finding)]
    assert [finding.where for finding in findings] == ["cluster.worker[1]", "cluster.worker[2]"]
    assert caught.value.hint == "add the port: host:2222"
