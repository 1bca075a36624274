"""Makes a value once for all processes of a test run, and keeps it in the run's temp folder.

The first process that asks makes it; the others wait for it, and read what was kept.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

Made = TypeVar("Made")


def once(temp: pytest.TempPathFactory, name: str, make: Callable[[Path], Made]) -> Made:
    """What `make` gives in a folder of its own; under pytest-xdist one process calls it.

    Args:
        temp: The run's temp folders.
        name: Under which it is kept; another name is another value.
        make: Takes the folder, and returns what can be pickled.
    """
    base = temp.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    folder = base / f"once-{hashlib.sha256(name.encode()).hexdigest()[:12]}"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = folder / "once.pickle"
        if kept.exists():
            made: Made = pickle.loads(kept.read_bytes())
            return made
        made = make(folder)
        kept.write_bytes(pickle.dumps(made))
        return made
