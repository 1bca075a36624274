"""What happens to a run, and what is to be done about it: the supervisor's two alphabets.

Message (what happened) -> `supervisor` -> Action (what to do)
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Said:
    """A worker reported a phase (see `report.Phase`)."""

    rank: int
    phase: str


@dataclass(frozen=True)
class Alive:
    """A worker's output was read, or is left unread by us: it is not silent."""

    rank: int


@dataclass(frozen=True)
class Progress:
    """A worker reported that it goes on; `step` is None when it counts none."""

    rank: int
    step: int | None


@dataclass(frozen=True)
class Listening:
    """A worker's port is being listened on: TensorFlow's server stands, it waits for its peers."""

    rank: int


@dataclass(frozen=True)
class Exited:
    """A worker's process has ended; `returncode` is negative for a signal, as in subprocess."""

    rank: int
    returncode: int


@dataclass(frozen=True)
class NotStarted:
    """A worker was not started, because the run was ended before its turn came."""

    rank: int


@dataclass(frozen=True)
class Signalled:
    """The launcher itself received a signal."""

    signum: int


@dataclass(frozen=True)
class Dumped:
    """The stacks that `Dump` asked for are all there, as far as they will come."""


@dataclass(frozen=True)
class Paused:
    """The launcher itself did not run for so many seconds: stopped, or the machine frozen."""

    seconds: float


@dataclass(frozen=True)
class Tick:
    """Nothing happened but time."""


Message = (
    Said | Alive | Progress | Listening | Exited | NotStarted | Signalled | Dumped | Paused | Tick
)


@dataclass(frozen=True)
class Kill:
    """Send `signum` to the process group of `rank`."""

    rank: int
    signum: int


@dataclass(frozen=True)
class Release:
    """Let `rank`, whose program has ended well, leave."""

    rank: int


@dataclass(frozen=True)
class Tell:
    """Tell the user one line."""

    text: str


@dataclass(frozen=True)
class Dump:
    """Ask every worker for the stacks of its threads.

    Attributes:
        reason: Why.
        is_last: Whether the workers are ended then.
    """

    reason: str
    is_last: bool


@dataclass(frozen=True)
class Explain:
    """Make out of the stacks that have come where the workers are.

    Attributes:
        aloud: Tell the user now, and not only at the end.
    """

    aloud: bool


Action = Kill | Release | Tell | Dump | Explain
