"""Checks data against ``schema.json``: as much of JSON Schema as that file uses, and no more."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

SCHEMA = Path(__file__).with_name("schema.json")
_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}


@functools.cache
def schema() -> Mapping[str, Any]:
    """The schema of a report."""
    read: Mapping[str, Any] = json.loads(SCHEMA.read_text(encoding="utf-8"))
    return read


def violations(data: Any) -> list[str]:
    """What is wrong with a report, a line each; empty if nothing is."""
    return list(_violations(data, schema(), "report"))


def _violations(data: Any, rule: Mapping[str, Any], where: str) -> Iterator[str]:
    rule = _resolved(rule)
    if "anyOf" in rule:
        choices = [_resolved(each) for each in rule["anyOf"]]
        fitting = [each for each in choices if _is(data, each["type"])] or choices
        yield from min((list(_violations(data, each, where)) for each in fitting), key=len)
        return
    if "const" in rule and data != rule["const"]:
        yield f"{where} is {data!r} and not {rule['const']!r}"
    if "enum" in rule and data not in rule["enum"]:
        yield f"{where} is {data!r} and not one of {rule['enum']}"
    if "type" in rule and not _is(data, rule["type"]):
        yield f"{where} is no {rule['type']}"
        return
    if "minimum" in rule and data < rule["minimum"]:
        yield f"{where} is below {rule['minimum']}"
    if isinstance(data, dict):
        yield from _of_object(data, rule, where)
    if isinstance(data, list):
        for number, item in enumerate(data):
            yield from _violations(item, rule.get("items", {}), f"{where}[{number}]")


def _resolved(rule: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in rule:
        return rule
    found: Mapping[str, Any] = schema()["$defs"][rule["$ref"].rpartition("/")[2]]
    return found


def _of_object(data: Mapping[str, Any], rule: Mapping[str, Any], where: str) -> Iterator[str]:
    for name in rule.get("required", ()):
        if name not in data:
            yield f"{where} has no {name!r}"
    known = rule.get("properties", {})
    more = rule.get("additionalProperties", True)
    for name, value in data.items():
        if name in known:
            yield from _violations(value, known[name], f"{where}.{name}")
        elif more is False:
            yield f"{where} has an unknown {name!r}"
        elif isinstance(more, dict):
            yield from _violations(value, more, f"{where}.{name}")


def _is(data: Any, name: str) -> bool:
    if isinstance(data, bool):
        return name == "boolean"
    return isinstance(data, _TYPES[name])
