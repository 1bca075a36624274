"""Slots for worker processes, shared by all pytest processes of one session.

    a test of N workers -> waits for N of the session's slots -> runs, its deadline beginning now

Without them, the clusters of ``pytest -n 8`` would take the processors from each other, and tests
would miss their deadlines for no fault of theirs. A slot is a lock on a file: whatever ends a
process gives its slots back.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

_GATE = "gate"


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def slots(folder: Path, wanted: int, total: int) -> Iterator[None]:
    """Hold `wanted` of `total` slots, or all of them where more are wanted.

    Args:
        folder: Where the locks lie; the same for all who share the slots.
        wanted: How many.
        total: How many there are.
    """
    folder.mkdir(exist_ok=True)
    with contextlib.ExitStack() as held:
        with _locked(folder / _GATE):  # one collects at a time: two halves would wait for ever
            for path in _free_first(folder, total)[:wanted]:
                held.enter_context(_locked(path))
        yield


def _free_first(folder: Path, total: int) -> list[Path]:
    """The slots, the free ones first; nobody takes one meanwhile."""
    paths = [folder / str(number) for number in range(total)]
    return sorted(paths, key=lambda path: not _is_free(path))


def _is_free(path: Path) -> bool:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
