"""Where each rank stands, for a person to look at: a model without a clock, process or terminal.

    messages, steps, output -> Board -> rows (rank, task, state, step, last output)

The loop writes to it and the console's thread reads from it: a row is replaced as a whole.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tfdist_kit.launcher.messages import Exited, Listening, Message, NotStarted, Progress, Said

_PHASES = {
    "finished_without_joining": "finished",
    "failed": "failed",
    "preempted": "preempted",
    "joining": "joining",
    "listening": "joined",
}


@dataclass(frozen=True)
class Row:
    """One rank.

    Attributes:
        rank: The rank.
        task: ``type:index`` in the cluster.
        state: In a word or two.
        pid: Its process; None before it was started and after it has ended.
        step: The last step that it reported, if any.
        heard_at: When it last wrote something; None if it never has.
    """

    rank: int
    task: str
    state: str = "waiting"
    pid: int | None = None
    step: int | None = None
    heard_at: float | None = None


class Board:
    """All ranks of the attempt that goes on; none before the first."""

    def __init__(self) -> None:
        self._rows: list[Row] = []

    def begin(self, tasks: Sequence[str]) -> None:
        """A new attempt begins.

        Args:
            tasks: The task of each rank.
        """
        self._rows = [Row(rank, task) for rank, task in enumerate(tasks)]

    def rows(self) -> list[Row]:
        """Where each rank stands now."""
        return list(self._rows)

    def started(self, rank: int, pid: int) -> None:
        """The rank's process has been started."""
        self._rows[rank] = replace(self._rows[rank], state="starting", pid=pid)

    def heard(self, rank: int, now: float) -> None:
        """The rank has written something."""
        self._rows[rank] = replace(self._rows[rank], heard_at=now)

    def note(self, message: Message) -> None:
        """Something has happened."""
        match message:
            case Said(rank, phase):
                self._rows[rank] = replace(self._rows[rank], state=state_word(phase))
            case Listening(rank):
                self._rows[rank] = replace(self._rows[rank], state=state_word("listening"))
            case Progress(rank, step) if step is not None:
                self._rows[rank] = replace(self._rows[rank], step=step)
            case Exited(rank, returncode):
                word = exit_word(returncode)
                self._rows[rank] = replace(self._rows[rank], state=word, pid=None)
            case NotStarted(rank):
                self._rows[rank] = replace(self._rows[rank], state="not started")


def state_word(phase: str) -> str:
    """A phase, as people are told it."""
    return _PHASES.get(phase, phase)


def exit_word(returncode: int) -> str:
    """How a process ended: ``done``, ``exit 3`` or ``SIGKILL``."""
    if returncode >= 0:
        return f"exit {returncode}" if returncode else "done"
    try:
        return signal.Signals(-returncode).name
    except ValueError:
        return f"signal {-returncode}"
