from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tests.tf_config.cases import CASES, GOOD, HOSTS, TASK, TEXT, config
from tfdist_kit.tf_config import MISTAKES, Finding, lint, lint_environ, lint_together
from tfdist_kit.tf_config.findings import mistake

WRONG = [(code, wrong) for code, pairs in CASES.items() for wrong, _ in pairs]
RIGHT = [(code, right) for code, pairs in CASES.items() for _, right in pairs]
DOCS = Path(__file__).parents[2] / "docs" / "tf_config.md"


def codes(findings: tuple[Finding, ...]) -> list[str]:
    return [finding.code for finding in findings]


@pytest.mark.parametrize(("code", "wrong"), WRONG)
def test_one_mistake_gives_one_finding(code: str, wrong: Any) -> None:
    assert codes(lint(wrong)) == [code]


@pytest.mark.parametrize(("code", "right"), RIGHT)
def test_its_neighbour_gives_none(code: str, right: Any) -> None:
    assert lint(right) == ()


VERTEX = config(
    {
        "chief": ["cmle-training-workerpool0-1-0:2222"],
        "worker": ["cmle-training-workerpool1-1-0:2222"],
    },
    "chief",
    environment="cloud",
    job={"worker_count": 1, "worker_config": {"image_uri": "gcr.io/x"}},
)
KUBEFLOW = config(
    {"worker": ["mnist-worker-0.ns.svc:2222", "mnist-worker-1.ns.svc:2222"]}, environment="cloud"
)


@pytest.mark.parametrize(
    "right",
    [
        config({"worker": ["localhost:2222"]}),
        config({"chief": ["localhost:2222"]}, "chief"),
        config({"evaluator": ["localhost:2222"]}, "evaluator"),
        config({"chief": ["c:1"], "worker": HOSTS, "evaluator": ["e:1"]}, "evaluator"),
        config({"chief": ["c:1"], "worker": HOSTS, "evaluator": ["e:1"]}, "worker", 1),
        config({"worker": ["[::1]:1", "[::1]:2"]}, index="1"),
        {**VERTEX, "task": {**VERTEX["task"], "cloud": "c-1", "trial": ""}},
        KUBEFLOW,
        TEXT,
    ],
)
def test_what_works_in_tensorflow_gives_no_finding(right: Any) -> None:
    assert lint(right) == ()


def test_mistakes_in_different_places_are_all_told() -> None:
    wrong = {"Cluster": {"workers": ["a:1", "b"]}, "task": {"type": "worker", "index": 5}}
    assert codes(lint(wrong)) == ["TFC011", "TFC021", "TFC038", "TFC068"]


def test_a_finding_says_where_what_why_and_how_to_cure_it() -> None:
    (finding,) = lint(config({"worker": ["a:1", "localhost"]}, index=1))
    assert str(finding) == (
        "TFC038 error: an address has no port\n"
        "  where: cluster.worker[1]\n"
        '  given: "localhost"\n'
        "  why:   TensorFlow raises InvalidArgumentError 'Could not parse port for local server'\n"
        "  cure:  add the port: host:2222"
    )
    assert json.loads(json.dumps(finding.to_dict()))["where"] == "cluster.worker[1]"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (config(index=3), "an index from 0 to 1"),
        (config(type="Workers"), 'write "worker"'),
        ({"task": TASK, "jobs": 1}, "the keys are: jobs, task"),
        (config({"worker": ["a:1", "a:1"]}), r"cluster\.worker\[0\] has this address already"),
        (config({"\ud800\n": HOSTS}), r'call it "worker"'),
    ],
)
def test_the_cure_is_concrete(wrong: Any, words: str) -> None:
    (finding,) = lint(wrong)
    assert re.search(words, finding.cure)


def test_a_finding_can_be_printed_anywhere() -> None:
    text = "".join(str(finding) for finding in lint({"cluster": {"\ud800é\n": ["ü"]}}))
    assert text.isascii()
    assert "\\ud800" in text


def test_a_long_value_is_cut() -> None:
    (finding,) = lint("x" * 10_000)
    assert len(finding.given) < 200


def refuse(host: str) -> str | None:
    return None if host.startswith("known") else "Name or service not known"


def test_hosts_are_looked_up_once_each_and_only_when_asked_to() -> None:
    asked: list[str] = []

    def resolve(host: str) -> str | None:
        asked.append(host)
        return refuse(host)

    given = config({"worker": ["known:1", "lost:1", "lost:2"]})
    assert lint(given) == ()
    (finding,) = lint(given, resolve=resolve)
    assert (finding.code, finding.where) == ("TFC071", "cluster.worker[1]")
    assert "Name or service not known" in finding.why
    assert asked == ["known", "lost"]


@pytest.mark.parametrize(("type", "expected"), [("worker", []), ("evaluator", ["TFC071"])])
def test_only_the_evaluator_needs_the_evaluators_host(type: str, expected: list[str]) -> None:
    given = config({"worker": ["known:1"], "evaluator": ["lost:1"]}, type)
    assert codes(lint(given, resolve=refuse)) == expected


def environ(given: Any = GOOD, **more: str) -> dict[str, str]:
    return {"TF_CONFIG": json.dumps(given), **more}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, ["TFC001"]),
        ({"TF_CONFIG": ""}, ["TFC002"]),
        ({"tf_config": TEXT}, ["TFC070"]),
        ({"TFCONFIG": TEXT}, ["TFC070"]),
        ({"TF_CONFIGS": TEXT}, ["TFC070"]),
        ({"TF_CONFIG": TEXT, "tf_config": TEXT}, []),
        ({"TF_CONFIG_DIR": "x"}, ["TFC001"]),
    ],
)
def test_a_misnamed_variable(variables: dict[str, str], expected: list[str]) -> None:
    assert codes(lint_environ(variables)) == expected


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"http_proxy": "http://p:3128"}, ["TFC074"]),
        ({"https_proxy": "http://p:3128"}, ["TFC074"]),
        ({"grpc_proxy": "http://p:3128", "no_proxy": "a.example"}, ["TFC074"]),
        ({"http_proxy": "http://p:3128", "NO_PROXY": "example"}, ["TFC074"]),
        ({"http_proxy": "http://p:3128", "no_proxy": "*"}, ["TFC074"]),
        (
            {"http_proxy": "http://p:3128", "no_proxy": "example", "no_grpc_proxy": "x"},
            ["TFC074"],
        ),
        ({"http_proxy": "http://p:3128", "no_proxy": "x, Example"}, []),
        ({"http_proxy": "http://p:3128", "no_proxy": "a.example,b.example"}, []),
        ({"HTTP_PROXY": "http://p:3128"}, []),
        ({"http_proxy": ""}, []),
    ],
)
def test_a_proxy_between_the_tasks(variables: dict[str, str], expected: list[str]) -> None:
    given = config({"worker": ["a.example:1", "b.example:1"]})
    assert codes(lint_environ(environ(given, **variables))) == expected


def test_a_proxy_can_be_kept_from_a_network() -> None:
    given = config({"worker": ["10.0.0.1:1", "10.0.0.2:1"]})
    proxied = environ(given, http_proxy="http://me:secret@p:3128")
    (finding,) = lint_environ(proxied)
    assert finding.given == '"http://***@p:3128"'
    assert lint_environ({**proxied, "no_proxy": "10.0.0.0/8"}) == ()


def test_this_machine_must_have_the_port_and_the_address() -> None:
    ports: list[int] = []

    def can_bind(port: int) -> str | None:
        ports.append(port)
        return "Address already in use"

    findings = lint_environ(
        environ(config({"worker": ["known0:1", "known1:2"]}, index=1)),
        resolve=refuse,
        can_bind=can_bind,
        is_own_address=lambda host: f"{host} is elsewhere",
    )
    assert codes(findings) == ["TFC072", "TFC073"]
    assert [finding.where for finding in findings] == ["cluster.worker[1]"] * 2
    assert "Address already in use" in findings[0].why
    assert "known1 is elsewhere" in findings[1].why
    assert ports == [2]


def test_an_own_host_that_nobody_knows_is_told_once() -> None:
    findings = lint_environ(
        environ(config({"worker": ["lost:1"]})), resolve=refuse, is_own_address=lambda host: "no"
    )
    assert codes(findings) == ["TFC071"]


def test_nothing_of_this_machine_is_asked_without_a_sound_own_address() -> None:
    def never(value: object) -> str | None:
        raise AssertionError(value)

    for wrong in (config({"worker": ["a"]}), config(index=7), {}):
        assert lint_environ(environ(wrong), can_bind=never, is_own_address=never)


def test_tasks_that_fit_together_give_no_finding() -> None:
    texts = {f"task{index}": json.dumps(config(index=index)) for index in (0, 1)}
    evaluator = config({"worker": HOSTS, "evaluator": ["e:1"]}, "evaluator")
    assert lint_together({**texts, "evaluator": evaluator}) == ()


@pytest.mark.parametrize(
    ("cluster", "given", "theirs"),
    [
        ({"worker": [*HOSTS, "c:3"]}, "worker[2] = c:3", "worker[2] = nothing"),
        ({"worker": ["a:1", "b:3"]}, "worker[1] = b:3", "worker[1] = b:2"),
        (
            {"worker": HOSTS[::-1]},
            "worker[0] = b:2, worker[1] = a:1",
            "worker[0] = a:1, worker[1] = b:2",
        ),
        ({"chief": ["c:1"], "worker": HOSTS}, "chief[0] = c:1", "chief[0] = nothing"),
    ],
)
def test_clusters_that_differ_name_the_entries(
    cluster: Mapping[str, list[str]], given: str, theirs: str
) -> None:
    configs = {"odd": config(cluster, index=1), "x": GOOD, "y": config(cluster=None, index=1)}
    findings = [each for each in lint_together(configs) if each.code == "TFC080"]
    (finding,) = findings
    assert (finding.source, finding.given) == ("odd", json.dumps(given))
    assert finding.cure.endswith(f"x has {theirs}")


def test_two_names_of_one_machine_do_not_differ() -> None:
    here = config({"worker": ["localhost:1", "localhost:2"]})
    assert (
        lint_together({"a": here, "b": config({"worker": ["127.0.0.1:1", "[::1]:2"]}, index=1)})
        == ()
    )


def test_a_task_that_occurs_twice() -> None:
    (finding,) = lint_together({"first": config(index=1), "second": config(index="1")})
    assert (finding.code, finding.source, finding.given) == ("TFC081", "second", '"worker:1"')
    assert "first is worker:1 already" in finding.cure


def test_each_text_is_looked_at_alone_as_well() -> None:
    findings = lint_together({"good": GOOD, "bad": "", "worse": config(index=9)})
    assert [(each.source, each.code) for each in findings] == [
        ("bad", "TFC002"),
        ("worse", "TFC068"),
    ]
    assert "  where: bad: TF_CONFIG\n" in str(findings[0])


def test_texts_without_a_cluster_have_nothing_to_compare() -> None:
    assert codes(lint_together({"x": "", "y": "[]"})) == ["TFC002", "TFC004"]


def test_hosts_of_several_texts_are_looked_up_once() -> None:
    asked: list[str] = []
    lint_together({"x": GOOD, "y": config(index=1)}, resolve=asked.append)
    assert sorted(asked) == ["a", "b"]


TESTED_ELSEWHERE = {"TFC070", "TFC071", "TFC072", "TFC073", "TFC074", "TFC080", "TFC081"}


def test_a_code_is_given_once() -> None:
    with pytest.raises(ValueError, match="TFC001 is already taken by 'TF_CONFIG is not set'"):
        mistake("TFC001", "another", why="", cure="")


def test_every_code_has_an_example() -> None:
    assert CASES.keys() | TESTED_ELSEWHERE == MISTAKES.keys()


def test_every_code_is_explained_in_the_docs() -> None:
    rows = [line.split(" | ") for line in DOCS.read_text().splitlines() if line.startswith("| TFC")]
    told = {row[0].removeprefix("| "): (row[1], row[2]) for row in rows}
    assert told == {each.code: (each.severity, each.what) for each in MISTAKES.values()}


ODD: list[Any] = [
    None, True, False, 0, -1, 1, 2.5, float("nan"), float("inf"), 10**30, "", " ", "worker", "0",
    "a:1", ":", "[", "]", "[::1]:1", "a:" + "1" * 99, "\ud800", "\x00", [], {}, [[]], [None],
    {"worker": ["a:1"]}, {"0": "a:1"}, {"x": {"y": []}}, {"": 0}, "cluster", "task",
]  # fmt: skip


def mutate(value: Any, chance: random.Random) -> Any:
    """The value with something odd somewhere in it."""
    if not isinstance(value, dict | list) or not value or chance.random() < 0.2:
        return chance.choice(ODD)
    place = chance.choice(list(value)) if isinstance(value, dict) else chance.randrange(len(value))
    changed: Any = dict(value) if isinstance(value, dict) else list(value)
    if isinstance(value, dict) and chance.random() < 0.3:
        changed[chance.choice(["", "\ud800", str(place).upper(), f"{place}s"])] = changed.pop(place)
    else:
        changed[place] = mutate(value[place], chance)
    return changed


def test_the_lint_never_raises() -> None:
    chance = random.Random(20)
    full = config({"chief": ["c:1"], "worker": HOSTS, "evaluator": {"0": "e:1"}}, rpc_layer="grpc")
    for _ in range(600):
        odd = mutate(mutate(full, chance), chance)
        findings = lint_environ(
            {"TF_CONFIG": json.dumps(odd), "http_proxy": "p"},
            resolve=refuse,
            can_bind=lambda port: "taken",
            is_own_address=refuse,
        )
        assert all(str(finding).isascii() for finding in findings)
        lint_together({"odd": odd, "full": full})


def test_a_read_only_object_is_read_as_well() -> None:
    assert lint(MappingProxyType(GOOD)) == ()


def test_objects_that_json_cannot_hold_are_mistakes_like_others() -> None:
    endless: dict[str, Any] = {}
    endless["cluster"] = endless
    for odd in (object(), b"{}", {1, 2}, {("a",): 1}, endless, config({"worker": {object()}})):
        assert lint(odd)
