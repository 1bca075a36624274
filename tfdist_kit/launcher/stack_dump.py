"""A worker's own half of `stacks`: when a signal comes, C code writes where every thread is.

    stacks -> SIGNUM -> faulthandler's handler -> RANK_FOLDER/stacks.txt

The handler needs no interpreter, so that it works while native code holds the interpreter's lock,
as TensorFlow does while it waits for its peers. This module imports next to nothing.
"""

from __future__ import annotations

import faulthandler
import os
import signal

FILE_NAME = "stacks.txt"
SIGNUM: int | None = signal.SIGRTMIN + 7 if hasattr(signal, "SIGRTMIN") else None
"""The signal that asks for the stacks: a real-time one, for the others are the script's own to
use. None where the system has no such signals."""


def open_file(folder: str) -> int:
    """Open the file that the stacks go to, and return its descriptor."""
    path = os.path.join(folder, FILE_NAME)
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


def answer(fd: int) -> None:
    """Write the stacks of all threads to `fd` whenever they are asked for."""
    if SIGNUM is not None:
        faulthandler.register(SIGNUM, file=fd, all_threads=True, chain=False)
