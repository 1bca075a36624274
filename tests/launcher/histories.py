"""Replays message histories against a supervisor: no process, and a clock made of numbers."""

from __future__ import annotations

from pathlib import Path

from tfdist_kit.launcher.failure import Failure
from tfdist_kit.launcher.messages import Action, Exited, Kill, Message, Said, Tick
from tfdist_kit.launcher.outcome import Outcome, conclude
from tfdist_kit.launcher.plan import WorkerPlan
from tfdist_kit.launcher.request import Deadlines
from tfdist_kit.launcher.supervisor import Supervisor

TWO = ("worker:0", "worker:1")


def worker_plans(tasks: tuple[str, ...], debugged: int | None = None) -> tuple[WorkerPlan, ...]:
    return tuple(
        WorkerPlan(rank, task, 1000 + rank, {}, Path(f"rank_{rank}"), rank == debugged)
        for rank, task in enumerate(tasks)
    )


def failure(at: float, *, aftermath: bool = False, exit_code: int = 1) -> Failure:
    return Failure("exception", "ValueError", "no", "a.py:1", "", exit_code, aftermath, at)


class History:
    """A supervisor and everything that it asked for so far."""

    def __init__(
        self,
        tasks: tuple[str, ...] = TWO,
        deadlines: Deadlines | None = None,
        debugged: int | None = None,
    ) -> None:
        plans = worker_plans(tasks, debugged)
        self.supervisor = Supervisor(plans, deadlines or Deadlines(), started=0.0)
        self.now = 0.0
        self.actions: list[tuple[float, Action]] = []
        self.failures: dict[int, Failure] = {}

    def at(self, now: float, *messages: Message) -> History:
        """Let the clock run to `now`, waking the supervisor at its deadlines, then send."""
        while (deadline := self.supervisor.next_deadline()) is not None and deadline < now:
            self._handle(Tick(), deadline)
        for message in messages or (Tick(),):
            self._handle(message, now)
        self.now = now
        return self

    def _handle(self, message: Message, now: float) -> None:
        self.actions += [(now, action) for action in self.supervisor.handle(message, now)]

    def all_join(self, now: float) -> History:
        return self.at(now, *(Said(rank, "joined") for rank in range(len(self.supervisor.plans))))

    def fails(self, now: float, rank: int, code: int = 1, *, aftermath: bool = False) -> History:
        """Rank `rank` records a failure, and its process leaves with `code`."""
        self.failures[rank] = failure(now, aftermath=aftermath, exit_code=code)
        return self.at(now, Said(rank, "preempted" if code == 42 else "failed"), Exited(rank, code))

    def kills(self) -> list[tuple[float, int, int]]:
        """What was sent: time, rank, signal."""
        return [
            (now, action.rank, action.signum)
            for now, action in self.actions
            if isinstance(action, Kill)
        ]

    def outcome(self) -> Outcome:
        return conclude(self.supervisor, self.failures, self.now)
