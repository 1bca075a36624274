"""Coverage in the workers, if it is measured in pytest's process.

the running measurement -> settings -> a measurement in each worker -> a data file beside the
session's own, which pytest-cov or ``coverage combine`` puts together
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

_OPTIONS = ("branch", "source", "source_pkgs", "include", "omit", "plugins", "relative_files")


def settings() -> Mapping[str, Any] | None:
    """How coverage is measured in this process; None if it is not."""
    coverage = sys.modules.get("coverage")
    running = coverage.Coverage.current() if coverage is not None else None
    if running is None:
        return None
    options = {f"run:{name}": running.get_option(f"run:{name}") for name in _OPTIONS}
    return {"data_file": os.path.abspath(running.get_option("run:data_file")), "options": options}


@contextlib.contextmanager
def measured(settings: Mapping[str, Any] | None) -> Iterator[None]:
    """Measure coverage in this process, as `settings` of another say."""
    if settings is None:
        yield
        return
    coverage = importlib.import_module("coverage")
    here = coverage.Coverage(settings["data_file"], data_suffix=True, config_file=False)
    for name, value in settings["options"].items():
        if value:
            here.set_option(name, value)
    here.start()
    try:
        yield
    finally:
        here.stop()
        here.save()
