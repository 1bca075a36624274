"""Every test leaves the process as it found it: no child, thread, open file or variable more."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.adapters.cluster import run_workers
from tfdist_kit.launcher import close_pool

PATIENCE = 2.0


def children() -> set[str]:
    found: set[str] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended
            found.update((task / "children").read_text().split())
    return found


def open_files() -> set[tuple[int, str]]:
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add((int(name), os.readlink(f"/proc/self/fd/{name}")))
        except FileNotFoundError:
            continue  # the listing's own descriptor
    return found


def variables() -> set[tuple[str, str]]:
    return {item for item in os.environ.items() if item[0] != "PYTEST_CURRENT_TEST"}


@pytest.fixture(scope="session")
def preloaded() -> Iterator[None]:
    """The process that the clusters of `tests.adapters.cluster` are forked from."""
    run_workers("os:getpid", workers=1)
    yield
    close_pool()


PROBES: dict[str, Callable[[], set[object]]] = {
    "child processes": lambda: set(children()),
    "threads": lambda: set(threading.enumerate()),
    "open files": lambda: set(open_files()),
    "environment": lambda: set(variables()),
}


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    before = {name: probe() for name, probe in PROBES.items()}
    yield
    deadline = time.monotonic() + PATIENCE
    left: dict[str, set[object]] = {}
    while True:
        left = {name: more for name, probe in PROBES.items() if (more := probe() - before[name])}
        if not left or time.monotonic() > deadline:
            break
        time.sleep(0.02)
    assert not left
