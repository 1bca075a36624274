"""What is known of a run while it goes on, and of its workers: data that `supervisor` keeps."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from enum import Enum, auto

from tfdist_kit.launcher import exits


class State(Enum):
    """Where a run stands."""

    RUNNING = auto()
    DRAINING = auto()
    DUMPING = auto()
    TERMINATING = auto()
    KILLING = auto()
    OVER = auto()


class Why(Enum):
    """Why a run is being ended."""

    FAILURE = auto()
    LEFT_EARLY = auto()
    NOT_STARTED = auto()
    TIME_LIMIT = auto()
    STALLED = auto()
    SIGNAL = auto()


@dataclass
class WorkerState:
    """What is known of one worker.

    Attributes:
        running: Whether its script has begun.
        joined: Whether it takes, or took, part in the cluster.
        heeding: Whether it said that it leaves at once when it is given notice.
        watching: Whether it said that it will report each step, and save when it is given notice.
        saving: Whether a save of its own has ever begun.
        saved: Whether one was ever completed.
        failed_at: When its failure was first known, in seconds.
        told_of_failure: Whether it said itself that it failed, or was preempted.
        told_of_preemption: Whether it was the latter.
        left_early: Whether its program ended well without joining.
        finished_at: When its program ended well, and it began to wait for its peers.
        released: Whether it has been told to wait no longer.
        returncode: Of its process; None while it lives.
        exited_at: When its process ended.
        ended_by: The signal with which the supervisor ended it, if it did.
        noticed: The notice that was passed on to it, if any.
        never_started: Whether the run was ended before its turn came.
        told_early: Whether a notice came before its script began, which could not heed it.
        step: The highest step that it reported, if it reports any.
    """

    running: bool = False
    joined: bool = False
    heeding: bool = False
    watching: bool = False
    saving: bool = False
    saved: bool = False
    failed_at: float | None = None
    told_of_failure: bool = False
    told_of_preemption: bool = False
    left_early: bool = False
    finished_at: float | None = None
    released: bool = False
    returncode: int | None = None
    exited_at: float | None = None
    ended_by: int | None = None
    noticed: int | None = None
    never_started: bool = False
    told_early: bool = False
    step: int | None = None

    @property
    def alive(self) -> bool:
        """Whether its process has not ended yet."""
        return self.returncode is None

    @property
    def obeyed(self) -> bool:
        """Whether it was told to end before it failed; only SIGKILL is sent to who has failed."""
        return self.ended_by not in (None, signal.SIGKILL)

    @property
    def waits_to_leave(self) -> bool:
        """Whether it has finished and is still there for its peers."""
        return self.alive and self.finished_at is not None and not self.released

    @property
    def ended_well(self) -> bool:
        """Whether its program did all that it had to do, even if its process was ended then."""
        said_so = self.finished_at is not None or self.left_early
        well = self.returncode == 0 or (said_so and self.ended_by is not None)
        return well and not self.never_started

    @property
    def was_interrupted(self) -> bool:
        """Whether it was preempted or lost, as far as its exit code tells."""
        by_notice = exits.is_by_signal(self.returncode, self.noticed)
        return self.returncode in exits.INTERRUPTED_CODES or by_notice

    @property
    def has_trained(self) -> bool:
        """Whether it told of anything that could be lost."""
        return self.step is not None or self.saving

    @property
    def needs_peers(self) -> bool:
        """Whether its program may still be in the middle of a collective."""
        return self.alive and self.finished_at is None and self.failed_at is None


@dataclass(frozen=True)
class Cause:
    """Why the run was ended, by whom, and when.

    Attributes:
        why: The kind of cause.
        ranks: The ranks concerned: who failed, left early, did not join or was silent.
        signum: The signal that the launcher received, for `Why.SIGNAL`.
    """

    why: Why
    ranks: tuple[int, ...] = ()
    signum: int = 0
