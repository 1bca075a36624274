"""The descriptors by which this process keeps its workers alive.

A worker lives as long as its launcher holds the end of a pipe. A process that this one forks, as
``multiprocessing`` may, would hold the end as well, and could outlive it: so the fork closes them.
"""

from __future__ import annotations

import contextlib
import os

_fds: set[int] = set()


def keep(*fds: int) -> None:
    """Let no fork of this process have these descriptors."""
    _fds.update(fds)


def close(*fds: int) -> None:
    """Close those of the descriptors that were kept, each once, and none in a fork."""
    for fd in fds:
        if fd in _fds:
            _fds.remove(fd)
            os.close(fd)


def _close_all() -> None:
    for fd in _fds:
        with contextlib.suppress(OSError):
            os.close(fd)
    _fds.clear()


os.register_at_fork(after_in_child=_close_all)
