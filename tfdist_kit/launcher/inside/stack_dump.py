"""A worker's own half of `stacks`: when a signal comes, write where every thread is.

    stacks -> WHEN_IT_CAN -> Python's own handler -> all threads            } -> stacks.txt
           -> MAIN, ALL   -> faulthandler's, in C -> the main thread or all }

Python's handler runs between two instructions of the main thread, holds the interpreter's lock and
disturbs nothing, but never comes to run while native code does, as when TensorFlow waits for peers.
The handlers in C need no interpreter. They read stacks that others may be changing: of a thread
that is stuck in native code nothing changes, but one that runs may crash the process. This module
imports next to nothing.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal

FILE_NAME = "stacks.txt"
_FIRST: int | None = signal.SIGRTMIN + 7 if hasattr(signal, "SIGRTMIN") else None
CAN_BE_ASKED = _FIRST is not None
"""Whether the system has real-time signals; the others are the script's own to use."""
WHEN_IT_CAN = _FIRST or 0
MAIN = WHEN_IT_CAN + 1
ALL = WHEN_IT_CAN + 2


def open_file(folder: str) -> int:
    """Open the file that the stacks go to, and return its descriptor."""
    path = os.path.join(folder, FILE_NAME)
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


def answer(fd: int) -> None:
    """Write stacks to `fd` whenever they are asked for; to be called in the main thread."""
    if not CAN_BE_ASKED:
        return

    def tell(*_: object) -> None:
        with contextlib.suppress(OSError):  # the script has closed it
            faulthandler.dump_traceback(fd, all_threads=True)

    signal.signal(WHEN_IT_CAN, tell)
    signal.siginterrupt(WHEN_IT_CAN, False)  # native code may not know that calls can be
    faulthandler.register(MAIN, file=fd, all_threads=False, chain=False)
    faulthandler.register(ALL, file=fd, all_threads=True, chain=False)
