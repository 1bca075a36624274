"""Calls a function when the program imports a module; the program itself is not changed.

    TFDIST_ON_IMPORT="module=home:function;..." -> import of the module -> function(module)

A module that a preloaded process has already is handed over at once: it is what the program gets
when it imports it. This module imports next to nothing.
"""

from __future__ import annotations

import functools
import importlib
import os
from types import ModuleType

from tfdist_kit import _on_import

VARIABLE = "TFDIST_ON_IMPORT"


def watch() -> None:
    """Begin to watch for the modules that the environment names."""
    for pair in os.environ.get(VARIABLE, "").split(";"):
        name, _, call = pair.partition("=")
        if call:
            _on_import.when_imported(name, functools.partial(_call, call))


def _call(call: str, module: ModuleType) -> None:
    home, _, function = call.partition(":")
    getattr(importlib.import_module(home), function)(module)
