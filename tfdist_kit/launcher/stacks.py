"""Asks workers where they are, and waits for none of them.

    Target -> Collection: a signal to each process -> its stacks.txt grows, and stops growing
           -> answers (the stacks, or why there are none) -> explain

A signal goes only to a process that is surely the worker and has a handler for it (see
`stack_dump`): without one it would be the end of the process. Nothing is traced or stopped.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfdist_kit.launcher import proc, stack_text
from tfdist_kit.launcher.explain import Located, explain, where_is
from tfdist_kit.launcher.stack_dump import FILE_NAME, SIGNUM

DEADLINE = 2.0
POLL = 0.02
SETTLED = 0.1
LARGEST = 4 * 1024 * 1024
BUSY = 0.15
_HAS_ENDED = "its process has ended"


@dataclass(frozen=True)
class Target:
    """A worker that is to be asked.

    Attributes:
        rank: Its rank.
        name: How messages call it.
        folder: Where its records lie.
        pid: Its process; None when that has ended.
        start_time: When the process started (see `proc.start_time`), by which it is known.
    """

    rank: int
    name: str
    folder: Path
    pid: int | None
    start_time: int | None


def target_of(folder: Path, status: Mapping[str, Any]) -> Target:
    """The worker that a ``status.json`` is about.

    Args:
        folder: Where it lies.
        status: What is in it.
    """
    rank, task = int(status["rank"]), str(status["task"])
    lives = status.get("state") != "exited"
    pid, started = status.get("pid"), status.get("start_time")
    known = lives and isinstance(pid, int) and isinstance(started, int) and pid > 0
    return Target(rank, f"rank {rank} ({task})", folder, pid if known else None, started)


@dataclass(frozen=True)
class Answer:
    """What a worker's process told.

    Attributes:
        target: Who was asked.
        text: The stacks of all its threads, as written; empty when there are none.
        trouble: Why there are none.
        busy: Whether the process used the processor meanwhile.
    """

    target: Target
    text: str
    trouble: str
    busy: bool

    @property
    def threads(self) -> tuple[stack_text.Thread, ...]:
        """The stacks as data."""
        return stack_text.parse(self.text)

    def located(self) -> Located:
        """Where the worker is."""
        where = where_is(self.threads, busy=self.busy) if self.text else None
        return Located(self.target.rank, self.target.name, where, self.trouble)


class Collection:
    """The stacks of several workers, asked for once.

    Args:
        targets: Who is asked.
        reason: Why, for the file that the stacks are kept in.
    """

    def __init__(self, targets: Iterable[Target], reason: str) -> None:
        self._asked = [_Asked(target, reason) for target in targets]

    def is_complete(self) -> bool:
        """Whether every worker has answered, or is known not to."""
        now = time.monotonic()
        pending = [asked for asked in self._asked if not asked.is_done(now)]
        return not pending

    def answers(self) -> tuple[Answer, ...]:
        """What has been told so far; who has not answered yet is said not to have."""
        return tuple(asked.answer() for asked in self._asked)


class _Asked:
    """One worker that is being asked."""

    def __init__(self, target: Target, reason: str) -> None:
        self._target = target
        self._path = target.folder / FILE_NAME
        self._begin = self._size = 0
        self._changed_at = self._asked_at = time.monotonic()
        self._cpu = 0.0
        self._is_done = False
        self.trouble = self._ask(reason)

    def _ask(self, reason: str) -> str:
        """Send the signal; tells why not."""
        pid, signum = self._target.pid, SIGNUM
        if pid is None or signum is None:
            return _HAS_ENDED if pid is None else "this system has no real-time signals"
        with contextlib.ExitStack() as stack:
            try:
                pidfd = os.pidfd_open(pid)  # from here on, the number cannot be somebody else's
                stack.callback(os.close, pidfd)
                if proc.start_time(pid) != self._target.start_time:
                    return _HAS_ENDED
                if trouble := proc.why_deaf(pid, signum):
                    return trouble
                self._begin = self._size = _write_header(self._path, self._target, reason)
                self._cpu = proc.cpu_seconds(pid)
                signal.pidfd_send_signal(pidfd, signum)
            except ProcessLookupError:
                return _HAS_ENDED
            except (AttributeError, OSError) as error:  # no pidfd; not allowed; no room
                return f"it cannot be asked: {error}"
        return ""

    def is_done(self, now: float) -> bool:
        if self.trouble or self._is_done:
            return True
        size = _size(self._path)
        if size != self._size:
            self._size, self._changed_at = size, now
        elif size > self._begin:
            self._is_done = now - self._changed_at >= SETTLED
        elif self._target.pid is None or proc.start_time(self._target.pid) is None:
            self.trouble = _HAS_ENDED
        return self._is_done or bool(self.trouble)

    def answer(self) -> Answer:
        text = "" if self.trouble else _read(self._path, self._begin)
        if not text and not self.trouble:
            self.trouble = "it has not answered in time"
        return Answer(self._target, text, self.trouble, self._is_busy())

    def _is_busy(self) -> bool:
        if self.trouble or self._target.pid is None:
            return False
        elapsed = time.monotonic() - self._asked_at
        used = proc.cpu_seconds(self._target.pid) - self._cpu
        return used > BUSY * elapsed


def collect(targets: Sequence[Target], reason: str) -> tuple[Answer, ...]:
    """Ask, and wait for the answers, but not for long."""
    collection = Collection(targets, reason)
    deadline = time.monotonic() + DEADLINE
    while not collection.is_complete() and time.monotonic() < deadline:
        time.sleep(POLL)
    return collection.answers()


def explained(answers: Sequence[Answer]) -> tuple[str, ...]:
    """Where the workers are, in words: one line for each, and what they mean together."""
    return explain([answer.located() for answer in answers])


def tidy(folder: Path) -> None:
    """Remove a worker's file if nobody ever asked for its stacks."""
    path = folder / FILE_NAME
    with contextlib.suppress(OSError):
        if path.stat().st_size == 0:
            path.unlink()


def _write_header(path: Path, target: Target, reason: str) -> int:
    """Say in the file who asked and when; returns where the answer will begin."""
    clock = time.strftime("%Y-%m-%d %H:%M:%S")
    header = f"\n--- {clock}, {target.name}, pid {target.pid}: {reason}\n\n"
    with path.open("ab") as file:
        file.write(header.encode("utf-8", "replace"))
        file.flush()
        return file.tell()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _read(path: Path, begin: int) -> str:
    try:
        with path.open("rb") as file:
            file.seek(begin)
            return file.read(LARGEST).decode("utf-8", "replace")
    except OSError:
        return ""
