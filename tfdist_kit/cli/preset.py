"""Preset files for ``tfdist run --config``: TOML with the options' own names.

workers = 2
start-timeout = 30

[env]
TF_CPP_MIN_LOG_LEVEL = "2"
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from tfdist_kit._errors import RunFileError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NUMBER = (int, float)
KEYS: Mapping[str, type | tuple[type, ...]] = {
    "workers": int,
    "chief": bool,
    "evaluator": bool,
    "isolate": bool,
    "debug-rank": int,
    "gpus-per-worker": int,
    "module": bool,
    "args": list,
    "env": dict,
    "start-method": str,
    "fast-exit": bool,
    "log-dir": str,
    "tee": bool,
    "rank-filter": list,
    "timestamps": bool,
    "collapse": bool,
    "quiet-tf": bool,
    "live": bool,
    "timeout": NUMBER,
    "start-timeout": NUMBER,
    "drain": NUMBER,
    "grace": NUMBER,
    "save-timeout": NUMBER,
    "evaluator-timeout": NUMBER,
    "max-restarts": int,
    "restart-delay": NUMBER,
    "stall-timeout": NUMBER,
}
_ITEMS: Mapping[str, type] = {"args": str, "env": str, "rank-filter": int}


def read(path: Path) -> dict[str, Any]:
    """Read a preset.

    Returns:
        The options that the file sets, with `_` for `-` in their names.

    Raises:
        RunFileError: The file cannot be read, or has an unknown key or a wrong value.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise RunFileError(
            f"the preset {path} cannot be read: {error}", hint="check the path given to --config"
        ) from error
    except (ValueError, RecursionError) as error:  # TOMLDecodeError, and a number without end
        raise RunFileError(f"the preset {path} is not TOML: {error}") from error
    for key, value in data.items():
        _check(path, key, value)
    return {key.replace("-", "_"): value for key, value in data.items()}


def _check(path: Path, key: str, value: Any) -> None:
    if key not in KEYS:
        near = difflib.get_close_matches(key.replace("_", "-"), KEYS, n=1)
        raise RunFileError(
            f"the preset {path} has the unknown key {key!r}",
            hint=f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(KEYS)}",
        )
    if not _fits(value, KEYS[key]) or not all(_fits(item, _ITEMS[key]) for item in _items(value)):
        raise RunFileError(
            f"the preset {path} has {key} = {value!r}",
            hint=f"{key} must be {_WORDS[key]}",
        )


def _items(value: Any) -> Collection[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _fits(value: Any, wanted: type | tuple[type, ...]) -> bool:
    return isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool))


_WORDS: Mapping[str, str] = {
    key: {
        int: "a whole number",
        bool: "true or false",
        str: "a string",
        NUMBER: "a number of seconds",
        list: "a list of strings" if key == "args" else "a list of ranks",
        dict: "a table of strings",
    }[wanted]
    for key, wanted in KEYS.items()
}
