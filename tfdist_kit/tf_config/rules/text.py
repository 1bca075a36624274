"""Rules about the text as a whole and the keys at its top."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tfdist_kit.tf_config.document import Document, find_key
from tfdist_kit.tf_config.findings import MISSING, Finding, mistake, path

_ALONE = "TensorFlow finds no cluster and trains alone, without a word: N workers, N models"
_EXAMPLE = (
    '{"cluster": {"worker": ["host0:2222", "host1:2222"]}, "task": {"type": "worker", "index": 0}}'
)

UNSET = mistake(
    "TFC001",
    "TF_CONFIG is not set",
    severity="warning",
    why=f"{_ALONE}; this is right for a single worker only",
    cure=f"set TF_CONFIG for every task, for example to {_EXAMPLE}",
)
EMPTY_TEXT = mistake(
    "TFC002",
    "TF_CONFIG is an empty text",
    why="TensorFlow raises a JSONDecodeError that does not name TF_CONFIG",
    cure="unset TF_CONFIG to train alone, or set it to the cluster and the task",
)
NOT_JSON = mistake(
    "TFC003",
    "TF_CONFIG is not JSON",
    why="TensorFlow raises a JSONDecodeError that does not name TF_CONFIG ($flaw)",
    cure="write it with json.dumps, or quote it in the shell: export TF_CONFIG='{...}'",
)
NOT_AN_OBJECT = mistake(
    "TFC004",
    "TF_CONFIG is not a JSON object",
    why="$effect",
    cure='write an object with the keys "cluster" and "task", and encode it as JSON only once',
)
EMPTY_OBJECT = mistake(
    "TFC005",
    "TF_CONFIG is an empty object",
    why=_ALONE,
    cure=f"unset TF_CONFIG to train alone, or set it to, for example, {_EXAMPLE}",
)
REPEATED_KEY = mistake(
    "TFC006",
    "a key is written twice in one object",
    why="JSON keeps the last one in silence: what the first one says is lost",
    cure="write each key once, and all addresses of a job in one list",
)
CONSTANT = mistake(
    "TFC007",
    "NaN or Infinity is written as a number",
    severity="warning",
    why="TensorFlow reads it, but it is not JSON: other programs refuse the whole text",
    cure="leave the value out, or write null",
)
NO_CLUSTER = mistake(
    "TFC010",
    "there is no cluster",
    why=_ALONE,
    cure='add the key "cluster": {"worker": ["host0:2222", ...]}; the keys are: $keys',
)
KEY_CASE = mistake(
    "TFC011",
    "a key is in the wrong case",
    why="TensorFlow overlooks it: without a cluster it trains alone in silence, without a task "
    "it raises a ValueError",
    cure="write it as $meant",
)
KEY_SPELLING = mistake(
    "TFC012",
    "a key is misspelt",
    why="TensorFlow overlooks it: without a cluster it trains alone in silence, without a task "
    "it raises a ValueError",
    cure="write it as $meant",
)
RPC_LAYER = mistake(
    "TFC015",
    "rpc_layer is not grpc",
    why="TensorFlow raises NotFoundError 'No server factory registered for the given ServerDef'",
    cure='leave "rpc_layer" out, or write "grpc"',
)


def check_text(document: Document) -> Iterator[Finding]:
    """Whether there is a text, and it is a JSON object."""
    if document.text is None:
        yield UNSET.at("TF_CONFIG", MISSING)
    elif not document.text.strip():
        yield EMPTY_TEXT.at("TF_CONFIG", document.text)
    elif document.flaw:
        yield NOT_JSON.at("TF_CONFIG", document.text, flaw=document.flaw)
    elif not isinstance(document.value, dict):
        yield NOT_AN_OBJECT.at("TF_CONFIG", document.value, effect=_effect(document.value))


def _effect(value: Any) -> str:
    """What TensorFlow does with JSON that is no object: it asks ``"cluster" in value``."""
    if isinstance(value, list | str) and "cluster" not in value:
        return _ALONE
    return "TensorFlow raises a TypeError that does not name TF_CONFIG"


def check_json_traps(document: Document) -> Iterator[Finding]:
    """What Python's JSON reader passes over in silence."""
    for key in dict.fromkeys(document.repeated):
        yield REPEATED_KEY.at(path(key), key)
    for name in dict.fromkeys(document.constants):
        yield CONSTANT.at("TF_CONFIG", float(name))


def check_cluster_is_there(document: Document) -> Iterator[Finding]:
    """Whether TensorFlow will see a cluster at all."""
    if not isinstance(document.value, dict):
        return
    if not document.root:
        yield EMPTY_OBJECT.at("TF_CONFIG", document.value)
    elif document.cluster is MISSING:
        keys = ", ".join(sorted(document.root))
        yield NO_CLUSTER.at("cluster", MISSING, keys=keys)


def check_keys(document: Document) -> Iterator[Finding]:
    """Whether the keys that TensorFlow looks for are spelt as it spells them."""
    for name in ("cluster", "task"):
        yield from _spelling(find_key(document.root, name), name)
    task = document.task if isinstance(document.task, dict) else {}
    for name in ("type", "index"):
        yield from _spelling(find_key(task, name), name, "task")


def _spelling(given: str | None, name: str, *parents: str) -> Iterator[Finding]:
    if given is None or given == name:
        return
    kind = KEY_CASE if given.lower() == name else KEY_SPELLING
    yield kind.at(path(*parents, given), given, meant=f'"{name}"')


def check_rpc_layer(document: Document) -> Iterator[Finding]:
    """Whether the cluster speaks the one protocol that TensorFlow has."""
    given = document.root.get("rpc_layer")
    if given not in (None, "", "grpc"):
        yield RPC_LAYER.at("rpc_layer", given)
