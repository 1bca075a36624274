"""One mistake each, and the nearest TF_CONFIG without it.

    CASES[code] = [(wrong, right), ...]

A text is given where the mistake is in the text itself, an object elsewhere.
"""

from __future__ import annotations

import json
from typing import Any

HOSTS = ["a:1", "b:2"]


def config(
    cluster: Any = None, type: Any = "worker", index: Any = 0, **extra: Any
) -> dict[str, Any]:
    cluster = {"worker": HOSTS} if cluster is None else cluster
    return {"cluster": cluster, "task": {"type": type, "index": index}, **extra}


def tasked(task: Any) -> dict[str, Any]:
    return {"cluster": {"worker": HOSTS}, "task": task}


def address(wrong: Any) -> dict[str, Any]:
    return config({"worker": [wrong, "last:9"]})


GOOD = config()
TEXT = json.dumps(GOOD)
NO_NUMBERS: list[Any] = [None, [0], {}, "a", "", "9" * 5000]
TASK = {"type": "worker", "index": 0}

CASES: dict[str, list[tuple[Any, Any]]] = {
    "TFC001": [(None, GOOD)],
    "TFC002": [("", TEXT), (" \n", f" {TEXT}\n")],
    "TFC003": [
        (TEXT[:-1], TEXT),
        (TEXT.replace('"', "'"), TEXT),
        ("\ufeff" + TEXT, TEXT),
        ("[" * 100_000, TEXT),
        ('{"cluster": ' + "9" * 5000 + "}", TEXT),
    ],
    "TFC004": [
        ("[]", TEXT),
        ("null", TEXT),
        ("3", TEXT),
        ('"worker"', TEXT),
        (json.dumps(TEXT), TEXT),
    ],
    "TFC005": [("{}", TEXT)],
    "TFC006": [
        (
            '{"cluster": {"worker": ["a:1"], "worker": ["b:2"]}, "task": ' + json.dumps(TASK) + "}",
            TEXT,
        )
    ],
    "TFC007": [
        (json.dumps({**GOOD, "job": {"loss": float("nan")}}), {**GOOD, "job": {"loss": 1.5}})
    ],
    "TFC010": [
        ({"task": TASK}, GOOD),
        ({"environment": "cloud"}, {**GOOD, "environment": "cloud"}),
    ],
    "TFC011": [
        ({"Cluster": {"worker": HOSTS}, "task": TASK}, GOOD),
        ({"cluster": {"worker": HOSTS}, "TASK": TASK}, GOOD),
        (tasked({"Type": "worker", "index": 0}), GOOD),
        (tasked({"type": "worker", "INDEX": 0}), GOOD),
    ],
    "TFC012": [
        ({"clusters": {"worker": HOSTS}, "task": TASK}, GOOD),
        ({"cluster_spec": {"worker": HOSTS}, "task": TASK}, GOOD),
        ({"cluster": {"worker": HOSTS}, "tasks": TASK}, GOOD),
        (tasked({"types": "worker", "index": 0}), GOOD),
        (tasked({"type": "worker", "idx": 0}), GOOD),
    ],
    "TFC013": [
        ({"cluster": None, "task": TASK}, GOOD),
        ({"cluster": HOSTS, "task": TASK}, GOOD),
        ({"cluster": "a:1", "task": TASK}, GOOD),
    ],
    "TFC014": [(config({}), GOOD)],
    "TFC015": [
        (config(rpc_layer="grpc+verbs"), config(rpc_layer="grpc")),
        (config(rpc_layer=3), config(rpc_layer=None)),
        (config(rpc_layer="GRPC"), config(rpc_layer="")),
    ],
    "TFC020": [
        (config({"Worker": HOSTS}), GOOD),
        (config({"Worker": HOSTS}, "Worker"), GOOD),
        (config({"PS": ["p:1"], "worker": HOSTS}), GOOD),
    ],
    "TFC021": [
        (config({"workers": HOSTS}), GOOD),
        (config({"workers": HOSTS}, "workers"), GOOD),
        (config({"worker": HOSTS, "chef": ["c:1"]}), config({"worker": HOSTS, "chief": ["c:1"]})),
    ],
    "TFC022": [
        (config({"master": ["m:1"], "worker": HOSTS}), config({"chief": ["m:1"], "worker": HOSTS})),
        (
            config({"master": ["m:1"], "worker": HOSTS}, "master"),
            config({"chief": ["m:1"], "worker": HOSTS}, "chief"),
        ),
    ],
    "TFC023": [
        (config({"foo": ["f:1"], "worker": HOSTS}), GOOD),
        (config({"foo": HOSTS}), GOOD),
        (config({"": HOSTS}), GOOD),
    ],
    "TFC024": [
        (
            config({"chief": ["c:1", "c:2"], "worker": HOSTS}),
            config({"chief": ["c:1"], "worker": HOSTS}),
        )
    ],
    "TFC025": [
        (
            config({"worker": HOSTS, "evaluator": ["e:1", "e:2"]}),
            config({"worker": HOSTS, "evaluator": ["e:1"]}),
        )
    ],
    "TFC026": [(config({"worker": HOSTS, "ps": ["p:1"]}), GOOD)],
    "TFC027": [
        (config({"worker": []}), GOOD),
        (config({"worker": {}}), GOOD),
        (config({"chief": [], "worker": HOSTS}), config({"evaluator": [], "worker": HOSTS})),
        (config({"ps": [], "worker": HOSTS}), GOOD),
    ],
    "TFC028": [
        (config({"worker": "a:1"}), config({"worker": ["a:1"]})),
        (config({"worker": None}), GOOD),
        (config({"worker": 2}), GOOD),
    ],
    "TFC029": [
        (
            config({"worker": {"0": "a:1", "2": "b:2"}}),
            config({"worker": {"0": "a:1", "1": "b:2"}}),
        ),
        (config({"worker": {"0": "a:1", "2": "b:2"}}, index=2), GOOD),
        (config({"worker": {"first": "a:1"}}), config({"worker": {"0": "a:1"}})),
        (config({"worker": {"0": "a:1", "00": "b:2"}}), GOOD),
        (
            config({"worker": {"-1": "a:1", "0": "b:2"}}),
            config({"worker": {"1": "a:1", "0": "b:2"}}),
        ),
    ],
    "TFC030": [
        (address(12345), address("a:12345")),
        (address(None), GOOD),
        (address(["a:1"]), GOOD),
    ],
    "TFC031": [
        (address(" a:1"), address("a:1")),
        (address("a:1\n"), address("a:1")),
        (address("a: 1"), address("a:1")),
        (address("a\x00:1"), address("a:1")),
        (address("\ud800:1"), address("a:1")),
    ],
    "TFC032": [(address("a:1,b:2"), address("a:1")), (address("a:1;b:2"), address("a:1"))],
    "TFC033": [
        (address("grpc://a:1"), address("a:1")),
        (address("http://a:1/x"), address("a:1")),
    ],
    "TFC034": [(address("me@a:1"), address("a:1"))],
    "TFC035": [(address("a:1/job"), address("a:1")), (address("a:1?x"), address("a:1"))],
    "TFC036": [
        (address("[localhost]:1"), address("[2001:db8::1]:1")),
        (address("[2001:db8::1:1"), address("[2001:db8::1]:1")),
        (address("[2001:db8::1]1"), address("[2001:db8::1]:11")),
        (address("x[2001:db8::1]:1"), address("x:1")),
    ],
    "TFC037": [
        (address("2001:db8::1:2222"), address("[2001:db8::1]:2222")),
        (address("a:1:2"), address("a:1")),
    ],
    "TFC038": [
        (address("a"), address("a:1")),
        (address("a:"), address("a:1")),
        (address(""), address("a:1")),
        (address("[2001:db8::1]"), address("[2001:db8::1]:1")),
    ],
    "TFC039": [(address(":2222"), address("a:2222"))],
    "TFC040": [
        (address("a:http"), address("a:80")),
        (address("a:22.5"), address("a:22")),
        (address("a:+1"), address("a:1")),
        (address("a:\u0661"), address("a:1")),
    ],
    "TFC041": [
        (address("a:65536"), address("a:65535")),
        (address("a:99999"), address("a:9999")),
        (address("a:-1"), address("a:1")),
        (address("a:" + "9" * 5000), address("a:00080")),
    ],
    "TFC042": [(address("a:0"), config({"worker": ["a:0"]}))],
    "TFC043": [
        (config({"worker": ["a:1", "a:1"]}), config({"worker": ["a:1", "a:2"]})),
        (config({"worker": ["a:1", "A.:1"]}), config({"worker": ["a:1", "aa:1"]})),
        (
            config({"worker": ["localhost:1", "127.0.0.1:1"]}),
            config({"worker": ["localhost:1", "127.0.0.1:2"]}),
        ),
        (
            config({"worker": ["127.0.0.2:1", "[::1]:1"]}),
            config({"worker": ["127.0.0.2:1", "[::1]:2"]}),
        ),
        (
            config({"chief": ["a:1"], "worker": ["b:1", "a:1"]}),
            config({"chief": ["a:1"], "worker": ["b:1", "a:2"]}),
        ),
        (
            config({"worker": ["[2001:db8::1]:1", "[2001:db8:0::1]:1"]}),
            config({"worker": ["[2001:db8::1]:1", "[2001:db8::2]:1"]}),
        ),
    ],
    "TFC044": [
        (address("0.0.0.0:1"), address("a:1")),
        (address("[::]:1"), address("[2001:db8::1]:1")),
    ],
    "TFC045": [
        (config({"worker": ["localhost:1", "b:1"]}), config({"worker": ["a:1", "b:1"]})),
        (
            config({"worker": ["10.0.0.1:1", "127.0.0.1:1"]}),
            config({"worker": ["[::1]:1", "127.0.0.1:2"]}),
        ),
    ],
    "TFC050": [({"cluster": {"worker": HOSTS}}, GOOD)],
    "TFC051": [(tasked(None), GOOD)],
    "TFC052": [(tasked("worker"), GOOD), (tasked(["worker", 0]), GOOD), (tasked(0), GOOD)],
    "TFC053": [(tasked({"index": 0}), GOOD)],
    "TFC054": [(tasked({"type": "worker"}), GOOD), (tasked({"type": "worker", "id": 0}), GOOD)],
    "TFC055": [(config(type=None), GOOD), (config(type=3), GOOD), (config(type=["worker"]), GOOD)],
    "TFC056": [(config(type="Worker"), GOOD), (config(type="WORKER"), GOOD)],
    "TFC057": [(config(type="workers"), GOOD), (config(type="worker "), GOOD)],
    "TFC058": [
        (
            config({"chief": ["c:1"], "worker": HOSTS}, "master"),
            config({"chief": ["c:1"], "worker": HOSTS}, "chief"),
        )
    ],
    "TFC059": [(config(type="foo"), GOOD), (config(type=""), GOOD)],
    "TFC060": [(config(type="chief"), config({"chief": ["c:1"], "worker": HOSTS}, "chief"))],
    "TFC061": [
        (config(type="evaluator"), config({"worker": HOSTS, "evaluator": ["e:1"]}, "evaluator")),
        (config({"worker": HOSTS, "evaluator": []}, "evaluator"), GOOD),
    ],
    "TFC062": [
        (config({"worker": HOSTS, "ps": ["p:1"]}, "ps"), GOOD),
        (config(type="ps"), GOOD),
    ],
    "TFC063": [(config(index=odd), GOOD) for odd in NO_NUMBERS],
    "TFC064": [(config(index=True), config(index=1)), (config(index=False), config(index=0))],
    "TFC065": [(config(index=0.5), GOOD)],
    "TFC066": [(config(index=1.0), config(index=1))],
    "TFC067": [(config(index=-1), config(index=1)), (config(index="-1"), config(index="1"))],
    "TFC068": [
        (config(index=2), config(index=1)),
        (config(index="2"), config(index="1")),
        (config(index=2.0), config(index=1)),
        (config({"chief": ["c:1"], "worker": HOSTS}, "chief", 1), config(index=1)),
    ],
}
