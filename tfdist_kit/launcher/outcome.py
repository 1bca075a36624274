"""What a finished attempt amounts to: the root cause, and the exit code.

When one worker fails, the others fail in its wake. The root cause is the first failure in time
that is not such a consequence; only when every failure is one, the first of them stands for it.
A run that is told to end as a whole, by SIGTERM or a notice, and whose workers then leave as
preempted, is preempted itself: whoever starts it again goes on where it was.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tfdist_kit.launcher import exits
from tfdist_kit.launcher.failure import Failure
from tfdist_kit.launcher.plan import WorkerPlan
from tfdist_kit.launcher.signals import NOTICES
from tfdist_kit.launcher.state import Cause, Why, WorkerState
from tfdist_kit.launcher.supervisor import (
    LEFT_EARLY_EXIT,
    SETTLE_SECONDS,
    TIME_LIMIT_EXIT,
    Supervisor,
)

_ASK_TO_LEAVE = (signal.SIGTERM, *NOTICES)


@dataclass(frozen=True)
class Outcome:
    """The end of an attempt, or of a run, which is that of its last attempt.

    Attributes:
        exit_code: What `tfdist run` leaves with.
        cause: Why the run was ended; None when every worker ended well.
        root: The rank with the root cause, if a worker failed.
        others: The other failed ranks, in the order of their failures.
        seconds: How long it took.
        restarts: How many attempts came before.
        preempted: The signal by which the run as a whole was preempted, if it was.
    """

    exit_code: int
    cause: Cause | None
    root: int | None
    others: tuple[int, ...]
    seconds: float
    restarts: int = 0
    preempted: int | None = None


def conclude(supervisor: Supervisor, failures: Mapping[int, Failure], now: float) -> Outcome:
    """Judge an attempt that is over.

    Args:
        supervisor: Its final state.
        failures: What failed workers recorded, by rank.
        now: The time, on the supervisor's clock.
    """
    found = [
        _Failed(rank, worker, failures.get(rank))
        for rank, worker in enumerate(supervisor.workers)
        if _is_own_failure(worker, failures.get(rank), supervisor.cause)
    ]
    failed = sorted(
        found,
        key=lambda one: (
            one.is_aftermath or one.seems_so(found),
            one.worker.obeyed or one.was_preempted,
            one.at,
        ),
    )
    cause = supervisor.cause
    root = failed[0] if failed else None
    told_by = _told_to_leave_by(supervisor)
    preempted = told_by if _left_as_preempted(supervisor, failures) else None
    return Outcome(
        exit_code=exits.PREEMPTED_EXIT if preempted else _exit_code(cause, root, supervisor),
        cause=cause,
        root=root.rank if root else None,
        others=tuple(entry.rank for entry in sorted(failed[1:], key=lambda e: e.at)),
        seconds=now - supervisor.started,
        preempted=preempted,
    )


def cut_short(outcome: Outcome, cause: Cause, *, was_interrupted: bool) -> Outcome:
    """The end of a run that `cause` ended while no attempt was under way.

    Args:
        outcome: Of the attempt before.
        cause: What ended the run.
        was_interrupted: Whether that attempt was preempted, or lost a worker.
    """
    told = cause.why is Why.SIGNAL and cause.signum in _ASK_TO_LEAVE
    preempted = cause.signum if told and was_interrupted else None
    code = exits.PREEMPTED_EXIT if preempted else _exit_code(cause, None)
    return replace(outcome, exit_code=code, cause=cause, root=None, others=(), preempted=preempted)


def _told_to_leave_by(supervisor: Supervisor) -> int | None:
    """The signal by which the run as a whole was asked to leave, to be started again elsewhere."""
    cause = supervisor.cause
    if cause is not None and cause.why is Why.SIGNAL and cause.signum in _ASK_TO_LEAVE:
        return cause.signum
    return supervisor.notice if cause is not None and cause.why is Why.FAILURE else None


def _left_as_preempted(supervisor: Supervisor, failures: Mapping[int, Failure]) -> bool:
    """Whether some worker left as preempted, and all others with it.

    Who dies of a notice that came before its script could heed it has nothing to save.
    """
    trainers = [worker for worker, plan in _pairs(supervisor) if plan.joins]
    left = any(worker.returncode == exits.PREEMPTED_EXIT for worker in trainers)
    none_began = all(worker.told_early or not worker.running for worker in trainers)
    return (left or (none_began and supervisor.notice is not None)) and not any(
        _went_wrong(worker, failures.get(rank)) for rank, worker in enumerate(supervisor.workers)
    )


def _pairs(supervisor: Supervisor) -> Iterator[tuple[WorkerState, WorkerPlan]]:
    return zip(supervisor.workers, supervisor.plans, strict=True)


def _went_wrong(worker: WorkerState, failure: Failure | None) -> bool:
    """Whether a worker failed on its own account, for another reason than that it was told to."""
    if failure is None and worker.ended_by is not None:
        return False
    code = worker.returncode if failure is None else failure.exit_code
    return not (
        code == 0
        or code in exits.INTERRUPTED_CODES
        or exits.is_by_signal(code, worker.noticed)
        or exits.is_consequence(code, failure)
    )


@dataclass(frozen=True)
class _Failed:
    rank: int
    worker: WorkerState
    failure: Failure | None

    @property
    def is_aftermath(self) -> bool:
        return self.failure is not None and self.failure.aftermath

    def seems_so(self, others: Sequence[_Failed]) -> bool:
        """Whether it went down without a word just before somebody else's end was seen.

        Ends that come together are seen in any order; the other one is more likely the cause.
        """
        wordless = self.failure is None and self.worker.returncode in exits.CODES_IN_THE_WAKE
        return wordless and any(
            0 <= other.at - self.at <= SETTLE_SECONDS and other.worker.was_interrupted
            for other in others
        )

    @property
    def at(self) -> float:
        if self.failure is not None:
            return self.failure.monotonic
        return self.worker.exited_at or 0.0

    @property
    def was_preempted(self) -> bool:
        """Whether it was told to go, which explains no failure of another's own."""
        return self.exit_code == exits.PREEMPTED_EXIT

    @property
    def exit_code(self) -> int:
        code = self.worker.returncode
        if code is not None and code != 0 and self.worker.ended_by is None:
            return code if code > 0 else 128 - code
        return self.failure.exit_code if self.failure else 1


def _is_own_failure(worker: WorkerState, failure: Failure | None, cause: Cause | None) -> bool:
    """Tell a worker that failed from one that only obeyed when it was told to end."""
    if worker.ended_by is None:
        return failure is not None or worker.returncode != 0
    obeyed = cause is not None and cause.why is Why.SIGNAL
    return failure is not None and not obeyed


def _exit_code(
    cause: Cause | None, root: _Failed | None, supervisor: Supervisor | None = None
) -> int:
    if cause is None:
        return 0
    if cause.why is Why.SIGNAL:
        done = supervisor is not None and all(worker.ended_well for worker in supervisor.workers)
        return 0 if done and cause.signum == signal.SIGTERM else 128 + cause.signum
    if cause.why is Why.LEFT_EARLY:
        return LEFT_EARLY_EXIT
    if cause.why in (Why.TIME_LIMIT, Why.NOT_STARTED, Why.STALLED):
        return TIME_LIMIT_EXIT
    return root.exit_code if root else 1
