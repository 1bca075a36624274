"""Asks workers where they are, and waits for none of them.

    Target -> Collection: a signal to each process -> its stacks.txt grows, and stops growing
           -> answers (the stacks, or why there are none) -> explain

A worker is asked in the way that disturbs nothing, and in another if it does not answer. A signal
goes only to a process that is surely the worker and has a handler for it (see `stack_dump`):
without one it would be the end of the process. Nothing is traced or stopped.
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

from tfdist_kit.launcher.hangs import proc, stack_text
from tfdist_kit.launcher.hangs.explain import Located, explain, where_is
from tfdist_kit.launcher.inside.stack_dump import ALL, CAN_BE_ASKED, FILE_NAME, MAIN, WHEN_IT_CAN

DEADLINE = 2.0
POLL = 0.02
SETTLED = 0.1
PATIENCE = 0.5
LARGEST = 4 * 1024 * 1024
BUSY = 0.1
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
        joins: Whether it takes part in the cluster's collectives.
    """

    rank: int
    name: str
    folder: Path
    pid: int | None
    start_time: int | None
    joins: bool = True


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
    return Target(
        rank=rank,
        name=f"rank {rank} ({task})",
        folder=folder,
        pid=pid if known else None,
        start_time=started,
        joins=not task.startswith("evaluator:"),
    )


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
        target = self.target
        return Located(target.rank, target.name, where, self.trouble, joins=target.joins)


class Collection:
    """The stacks of several workers, asked for once.

    Args:
        targets: Who is asked.
        reason: Why, for the file that the stacks are kept in.
        is_last: Whether the workers are ended then: whatever it takes is done to get all stacks.
    """

    def __init__(self, targets: Iterable[Target], reason: str, *, is_last: bool = False) -> None:
        self._asked = [_Asked(target, reason, is_last) for target in targets]

    def is_complete(self) -> bool:
        """Whether every worker has answered, or is known not to; asks again where that helps."""
        now = time.monotonic()
        pending = [asked for asked in self._asked if not asked.is_done(now)]
        return not pending

    def answers(self) -> tuple[Answer, ...]:
        """What has been told so far; who has not answered yet is said not to have."""
        return tuple(asked.answer() for asked in self._asked)


class _Asked:
    """One worker that is being asked, in one way after the other (see `stack_dump`)."""

    def __init__(self, target: Target, reason: str, is_last: bool) -> None:
        self._target = target
        self._is_last = is_last
        self._path = target.folder / FILE_NAME
        self._begin = self._size = 0
        self._asked_at = self._sent_at = self._changed_at = time.monotonic()
        self._sent = 0
        self._cpu = proc.cpu_seconds(target.pid) if target.pid is not None else 0.0
        self._is_done = False
        self._trouble = self._ask(reason)

    def _ask(self, reason: str) -> str:
        """Begin; tells why not."""
        if self._target.pid is None:
            return _HAS_ENDED
        ways = (WHEN_IT_CAN, MAIN)
        deaf = [_why_not(self._target, way) for way in ways]
        if all(deaf):
            return deaf[-1]
        try:
            self._begin = _write_header(self._path, self._target, reason)
        except OSError as error:
            return f"its stacks cannot be kept: {error}"
        return self._send(next(way for way, trouble in zip(ways, deaf, strict=True) if not trouble))

    def _send(self, signum: int) -> str:
        self._sent, self._sent_at = signum, time.monotonic()
        self._size = _size(self._path)
        self._sent_size = self._size
        return _send(self._target, signum)

    def is_done(self, now: float) -> bool:
        """Whether nothing more will come."""
        if self._trouble or self._is_done:
            return True
        size = _size(self._path)
        if size != self._size:
            self._size, self._changed_at = size, now
        elif size > self._sent_size:
            if now - self._changed_at >= SETTLED:
                self._on_answer()
        elif now - self._sent_at >= PATIENCE:
            self._on_no_answer()
        return self._is_done or bool(self._trouble)

    def _on_answer(self) -> None:
        """All threads have told, or the main thread, which is what matters most."""
        if self._sent != MAIN or not self._is_last or self._send(ALL):
            self._is_done = True

    def _on_no_answer(self) -> None:
        if self._sent == WHEN_IT_CAN:
            self._trouble = self._send(MAIN)  # it is stuck in native code
        elif self._sent == ALL:
            self._is_done = True
        elif proc.start_time(self._target.pid or 0) != self._target.start_time:
            self._trouble = _HAS_ENDED

    def answer(self) -> Answer:
        """What has come so far."""
        text = "" if self._trouble else _read(self._path, self._begin)
        trouble = self._trouble or ("" if text else "it has not answered in time")
        return Answer(self._target, text, trouble, bool(text) and self._is_busy())

    def _is_busy(self) -> bool:
        elapsed = time.monotonic() - self._asked_at
        used = proc.cpu_seconds(self._target.pid or 0) - self._cpu
        return used > BUSY * elapsed


def collect(targets: Sequence[Target], reason: str, *, is_last: bool = False) -> tuple[Answer, ...]:
    """Ask, and wait for the answers, but not for long; the arguments are those of `Collection`."""
    collection = Collection(targets, reason, is_last=is_last)
    deadline = time.monotonic() + DEADLINE
    while not collection.is_complete() and time.monotonic() < deadline:
        time.sleep(POLL)
    return collection.answers()


def explained(answers: Sequence[Answer]) -> tuple[str, ...]:
    """Where the workers are, in words: one line for each, and what they mean together."""
    if not answers:
        return ("no worker has been started yet",)
    return explain([answer.located() for answer in answers])


def tidy(folder: Path) -> None:
    """Remove a worker's file if nobody ever asked for its stacks."""
    path = folder / FILE_NAME
    with contextlib.suppress(OSError):
        if path.stat().st_size == 0:
            path.unlink()


def _why_not(target: Target, signum: int) -> str:
    """Why a worker's process cannot be sent a signal."""
    if not CAN_BE_ASKED:
        return "this system has no real-time signals"
    if target.pid is None or proc.start_time(target.pid) != target.start_time:
        return _HAS_ENDED
    return proc.why_deaf(target.pid, signum)


def _send(target: Target, signum: int) -> str:
    """Send a signal to a worker's process, and to no other; tells why not."""
    try:
        pidfd = os.pidfd_open(target.pid or 0)
    except ProcessLookupError:
        return _HAS_ENDED
    except (AttributeError, OSError) as error:
        return f"it cannot be asked: {error}"
    try:  # from here on, the number cannot have become somebody else's
        if trouble := _why_not(target, signum):
            return trouble
        signal.pidfd_send_signal(pidfd, signum)
    except ProcessLookupError:
        return _HAS_ENDED
    except OSError as error:
        return f"it cannot be asked: {error}"
    finally:
        os.close(pidfd)
    return ""


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
