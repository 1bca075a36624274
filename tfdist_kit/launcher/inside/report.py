"""What a worker tells its launcher: one line at a time, through an inherited pipe.

A line is a word, and what belongs to it after a space. ``worker.py`` opens the pipe; the adapters
say when the strategy is being made and when it stands. In a process that no launcher of ours
started, saying anything is a no-op.
"""

from __future__ import annotations

import contextlib
import os
from typing import Literal

Phase = Literal[
    "running",
    "heeding",
    "joining",
    "joined",
    "watching",
    "saving",
    "saved",
    "preempted",
    "failed",
    "finished",
    "finished_without_joining",
]
"""``running``: the script has begun; ``heeding``: when given notice, it leaves at once with 42;
``joining`` and ``joined``: before and after the strategy is made; ``watching``: from now on a
notice leads to a save, and each step that is done is reported; ``saving`` and ``saved``: before and
after a save that a notice led to; ``preempted``: it leaves with 42; ``failed``: ``error.json`` is
written; ``finished``: the script has ended, its cluster formed; ``finished_without_joining``: the
script has ended without ever joining the cluster."""
Word = Phase | Literal["afresh", "alive", "step"]
"""``afresh``: this worker begins again in an interpreter of its own; the reason follows.
``alive``: it goes on; ``step``: likewise, and the number of steps that are done follows."""

_pipe: int | None = None
_pid: int | None = None


def open_pipe(fd: int) -> None:
    """Report through the pipe `fd` from now on; programs that this process starts do not get it."""
    global _pipe, _pid
    os.set_inheritable(fd, False)
    _pipe, _pid = fd, os.getpid()


def is_the_worker() -> bool:
    """Whether this process is the worker itself, and not one that the script has forked."""
    return _pid == os.getpid()


def say(word: Word, rest: str = "") -> None:
    """Tell the launcher, if there is one, one thing about this worker."""
    if _pipe is not None and is_the_worker():
        line = " ".join(f"{word} {rest}".split())
        with contextlib.suppress(OSError):  # the launcher is gone; the kernel ends this worker too
            os.write(_pipe, f"{line}\n".encode("utf-8", "replace"))
