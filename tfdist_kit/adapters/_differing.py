"""Where workers differ, once each has told its facts to all."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

_SHOWN = 60
"""Letters of a value that an error shows."""


def differences(told: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Where workers differ, in words.

    Args:
        told: The facts of each worker, in rank order.

    Returns:
        Such as ``seeds.keras is 1 on worker:0, 2 on worker:1``, for each fact; empty if they are
        alike.
    """
    keys = dict.fromkeys(key for own in told.values() for key in own)
    return [text for key in keys if (text := _difference(key, told))]


def _difference(key: str, told: Mapping[str, Mapping[str, Any]]) -> str:
    by_value: dict[str, list[str]] = defaultdict(list)
    for task, own in told.items():
        by_value[_text(own.get(key))].append(task)
    if len(by_value) == 1:
        return ""
    listed = ", ".join(f"{_cut(text)} on {' and '.join(by_value[text])}" for text in by_value)
    return f"{key} is {listed}"


def _text(value: Any) -> str:
    return "unset" if value is None else value if isinstance(value, str) else json.dumps(value)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
