"""What a finished attempt amounts to: the root cause, and the exit code.

When one worker fails, the others fail in its wake. The root cause is the first failure in time
that is not such a consequence; only when every failure is one, the first of them stands for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tfdist_kit.launcher.failure import Failure
from tfdist_kit.launcher.supervisor import (
    LEFT_EARLY_EXIT,
    TIME_LIMIT_EXIT,
    Cause,
    Supervisor,
    Why,
    WorkerState,
)


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
    """

    exit_code: int
    cause: Cause | None
    root: int | None
    others: tuple[int, ...]
    seconds: float
    restarts: int = 0


def conclude(supervisor: Supervisor, failures: Mapping[int, Failure], now: float) -> Outcome:
    """Judge an attempt that is over.

    Args:
        supervisor: Its final state.
        failures: What failed workers recorded, by rank.
        now: The time, on the supervisor's clock.
    """
    failed = sorted(
        (
            _Failed(rank, worker, failures.get(rank))
            for rank, worker in enumerate(supervisor.workers)
            if _is_own_failure(worker, failures.get(rank), supervisor.cause)
        ),
        key=lambda entry: (entry.is_aftermath, entry.at),
    )
    cause = supervisor.cause
    root = failed[0] if failed else None
    return Outcome(
        exit_code=_exit_code(cause, root),
        cause=cause,
        root=root.rank if root else None,
        others=tuple(entry.rank for entry in sorted(failed[1:], key=lambda e: e.at)),
        seconds=now - supervisor.started,
    )


def cut_short(outcome: Outcome, cause: Cause) -> Outcome:
    """The end of a run that `cause` ended while no attempt was under way."""
    return replace(outcome, exit_code=_exit_code(cause, None), cause=cause, root=None, others=())


@dataclass(frozen=True)
class _Failed:
    rank: int
    worker: WorkerState
    failure: Failure | None

    @property
    def is_aftermath(self) -> bool:
        return self.failure is not None and self.failure.aftermath

    @property
    def at(self) -> float:
        if self.failure is not None:
            return self.failure.monotonic
        return self.worker.exited_at or 0.0

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


def _exit_code(cause: Cause | None, root: _Failed | None) -> int:
    if cause is None:
        return 0
    if cause.why is Why.SIGNAL:
        return 128 + cause.signum
    if cause.why is Why.LEFT_EARLY:
        return LEFT_EARLY_EXIT
    if cause.why in (Why.TIME_LIMIT, Why.NOT_STARTED, Why.STALLED):
        return TIME_LIMIT_EXIT
    return root.exit_code if root else 1
