"""Preloaded processes that this program keeps, so that its next cluster starts at once.

One is kept for each set of modules and of environment variables that their import reads. They end
with this program, however it ends.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence

from tfdist_kit.launcher.start.hidden import read_before_a_fork
from tfdist_kit.launcher.start.preload import Preloaded

MOST_KEPT = 2
_Key = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]


class _Pool:
    """The processes, the most recently used last, and how many clusters use each."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.kept: dict[_Key, Preloaded] = {}
        self.users: dict[_Key, int] = {}

    def take(self, key: _Key, environ: Mapping[str, str]) -> Preloaded:
        preloaded = self.kept.pop(key, None)
        if preloaded is None or not preloaded.is_alive():
            preloaded = Preloaded(key[0], environ, subprocess.DEVNULL)
        self.kept[key] = preloaded
        self.users[key] = self.users.get(key, 0) + 1
        return preloaded

    def give_back(self, key: _Key) -> None:
        self.users[key] -= 1
        idle = [key for key in self.kept if not self.users[key]]
        for key in idle[: max(0, len(self.kept) - MOST_KEPT)]:
            self.kept.pop(key).close()

    def close(self) -> None:
        while self.kept:
            self.kept.popitem()[1].close()


_lock = threading.Lock()
_pool = _Pool()


@contextlib.contextmanager
def shared(modules: Sequence[str], environ: Mapping[str, str]) -> Iterator[Preloaded]:
    """A preloaded process, new or kept from an earlier cluster of this program.

    Args:
        modules: What it has imported.
        environ: The environment of the workers.
    """
    global _pool
    key = (tuple(modules), tuple(sorted(read_before_a_fork(environ).items())))
    with _lock:
        if _pool.pid != os.getpid():  # this is a fork: the processes are those of the original
            _pool = _Pool()
        mine = _pool
        preloaded = mine.take(key, environ)
    try:
        yield preloaded
    finally:
        with _lock:
            mine.give_back(key)


def warm_up(modules: Sequence[str], environ: Mapping[str, str]) -> None:
    """Start to preload for clusters to come, and do not wait for it.

    Args:
        modules: What they will preload.
        environ: The environment of their workers.
    """
    with shared(modules, environ):
        pass


def close_pool() -> None:
    """End the preloaded processes that this program keeps; the next cluster makes a new one."""
    with _lock:
        if _pool.pid == os.getpid():
            _pool.close()


atexit.register(close_pool)
