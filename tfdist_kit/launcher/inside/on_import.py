"""Calls a function when the program imports a module; the program itself is not changed.

    TFDIST_ON_IMPORT="module=home:function;..." -> import of the module -> function(module)

A module that a preloaded process has already is handed over at once: it is what the program gets
when it imports it. This module imports next to nothing.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import os
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

VARIABLE = "TFDIST_ON_IMPORT"


def watch() -> None:
    """Begin to watch for the modules that the environment names."""
    calls = dict(
        pair.split("=", 1) for pair in os.environ.get(VARIABLE, "").split(";") if "=" in pair
    )
    waiting = {}
    for name, call in calls.items():
        if name in sys.modules:
            _call(call, sys.modules[name])
        else:
            waiting[name] = call
    if waiting:
        sys.meta_path.insert(0, _Finder(waiting))


def _call(call: str, module: ModuleType) -> None:
    home, _, function = call.partition(":")
    getattr(importlib.import_module(home), function)(module)


class _Finder:
    """Lets the imports pass, and calls what waits for them once they are done."""

    def __init__(self, waiting: Mapping[str, str]) -> None:
        self._waiting = dict(waiting)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`; finds nothing but what is waited for."""
        if name not in self._waiting:
            return None
        call = self._waiting.pop(name)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        loader: Any = spec.loader if spec else None
        if loader is not None:
            run = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                _call(call, module)

            loader.exec_module = exec_module
        return spec
