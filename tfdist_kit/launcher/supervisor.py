"""Decides what happens to a running cluster. Never waits, never touches a process.

    message (what happened) -> Supervisor.handle -> actions (what to do)

``attempt`` feeds it messages from real processes, tests feed it histories. A run goes through

    running -> draining -> terminating -> killing -> over

A failure starts the draining: the peers of a failed worker may still end by themselves, most with
an error of their own. Whoever remains is sent SIGTERM, and SIGKILL after the grace period,
because TensorFlow swallows SIGTERM once a strategy exists. A run in which every worker ends well
goes from running to over directly. While a worker is being debugged, only a signal to the launcher
ends anything.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from enum import Enum, auto

from tfdist_kit.launcher.plan import Deadlines, WorkerPlan

TIME_LIMIT_EXIT = 124
LEFT_EARLY_EXIT = 1


@dataclass(frozen=True)
class Said:
    """A worker reported a phase (see `report.Phase`)."""

    rank: int
    phase: str


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
class Tick:
    """Nothing happened but time."""


Message = Said | Listening | Exited | NotStarted | Signalled | Tick


@dataclass(frozen=True)
class Kill:
    """Send `signum` to the process group of `rank`."""

    rank: int
    signum: int


@dataclass(frozen=True)
class Tell:
    """Tell the user one line."""

    text: str


Action = Kill | Tell


class State(Enum):
    """Where a run stands."""

    RUNNING = auto()
    DRAINING = auto()
    TERMINATING = auto()
    KILLING = auto()
    OVER = auto()


class Why(Enum):
    """Why a run is being ended."""

    FAILURE = auto()
    LEFT_EARLY = auto()
    NOT_STARTED = auto()
    TIME_LIMIT = auto()
    SIGNAL = auto()


@dataclass
class WorkerState:
    """What is known of one worker.

    Attributes:
        running: Whether its script has begun.
        joined: Whether it takes, or took, part in the cluster.
        failed_at: When its failure was first known, in seconds.
        left_early: Whether its program ended well without joining.
        returncode: Of its process; None while it lives.
        exited_at: When its process ended.
        ended_by: The signal with which the supervisor ended it, if it did.
    """

    running: bool = False
    joined: bool = False
    failed_at: float | None = None
    left_early: bool = False
    returncode: int | None = None
    exited_at: float | None = None
    ended_by: int | None = None

    @property
    def alive(self) -> bool:
        """Whether its process has not ended yet."""
        return self.returncode is None


@dataclass(frozen=True)
class Cause:
    """Why the run was ended, by whom, and when.

    Attributes:
        why: The kind of cause.
        ranks: The ranks concerned: who failed, left early or did not join.
        signum: The signal that the launcher received, for `Why.SIGNAL`.
    """

    why: Why
    ranks: tuple[int, ...] = ()
    signum: int = 0


@dataclass
class Supervisor:
    """The state of one attempt.

    Args:
        plans: The workers, in rank order.
        deadlines: How long each phase may take.
        started: The time of the start, on the clock of all later calls, in seconds.
    """

    plans: tuple[WorkerPlan, ...]
    deadlines: Deadlines
    started: float
    state: State = State.RUNNING
    cause: Cause | None = None
    workers: list[WorkerState] = field(init=False)
    _actions: list[Action] = field(init=False, default_factory=list)
    _phase_ends: float | None = field(init=False, default=None)
    _first_joined_at: float | None = field(init=False, default=None)
    _training_over_at: float | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.workers = [WorkerState() for _ in self.plans]

    def handle(self, message: Message, now: float) -> list[Action]:
        """Take note of `message` at the time `now` and say what is to be done."""
        match message:
            case Said(rank, phase):
                self._on_said(rank, phase, now)
            case Listening(rank):
                self._on_joined(rank, now)
            case Exited(rank, returncode):
                self._on_exited(rank, returncode, now)
            case NotStarted(rank):
                self.workers[rank].ended_by = signal.SIGTERM
                self._on_exited(rank, 0, now)
            case Signalled(signum):
                self._on_signal(signum, now)
            case Tick():
                pass
        self._look_for_early_leavers(now)
        self._check_deadlines(now)
        actions, self._actions = self._actions, []
        return actions

    def next_deadline(self) -> float | None:
        """When `handle` has to be called again even if nothing happens."""
        return min((at for at in self._deadlines_ahead() if at is not None), default=None)

    # Messages

    def _on_said(self, rank: int, phase: str, now: float) -> None:
        if phase == "running":
            self.workers[rank].running = True
        elif phase in ("joined", "joining"):
            self._on_joined(rank, now)
        elif phase == "finished":
            self.workers[rank].joined = True
        elif phase == "finished_without_joining":
            self.workers[rank].left_early = True
        elif phase == "failed":
            self._on_failure(rank, now)

    def _on_joined(self, rank: int, now: float) -> None:
        self.workers[rank].joined = True
        if self.plans[rank].joins and self._first_joined_at is None:
            self._first_joined_at = now

    def _on_exited(self, rank: int, returncode: int, now: float) -> None:
        worker = self.workers[rank]
        worker.returncode, worker.exited_at = returncode, now
        if returncode != 0 and worker.ended_by is None:
            self._on_failure(rank, now)
        if self.plans[rank].foreground and self.state is State.DRAINING:
            self._phase_ends = now + self._drain()
        if not any(worker.alive for worker in self.workers):
            self.state = State.OVER
        elif self._training_over_at is None and not self._living_trainers():
            self._training_over_at = now

    def _on_failure(self, rank: int, now: float) -> None:
        worker = self.workers[rank]
        if worker.failed_at is not None:
            return
        worker.failed_at = now
        if self.state is State.RUNNING:
            drain = self._drain()
            if any(peer.alive for peer in self.workers if peer is not worker):
                fate = f"its peers have {drain:g} s to end" if drain else "ending its peers"
                if self._is_debugging():
                    fate = "nothing is ended while a worker is being debugged"
                self._tell(f"{self.plans[rank].name} failed; {fate}")
            self._enter(State.DRAINING, now, drain, Cause(Why.FAILURE, (rank,)))

    def _on_signal(self, signum: int, now: float) -> None:
        if self.state is State.OVER:
            return  # it came with the last worker's end
        name = signal.Signals(signum).name
        if self.state is State.KILLING or (self.cause and self.cause.why is Why.SIGNAL):
            self._tell(f"{name} once more: killing the workers")
            self._kill_all(now)
        else:
            self._tell(
                f"{name}: passing it on to the workers, which have {self.deadlines.grace:g} s"
            )
            self._end_all(Cause(Why.SIGNAL, signum=signum), now, signum)

    # Time

    def _deadlines_ahead(self) -> list[float | None]:
        if self.state is State.OVER:
            return []
        if self.state in (State.RUNNING, State.DRAINING) and self._is_debugging():
            return [None, None, None]
        total = _after(self.started, self.deadlines.total)
        if self.state is State.DRAINING:
            return [self._phase_ends, total]
        if self.state is not State.RUNNING:
            return [self._phase_ends]
        return [
            total,
            self._start_deadline(),
            _after(self._training_over_at, self.deadlines.evaluator),
        ]

    def _start_deadline(self) -> float | None:
        return _after(self._first_joined_at, self.deadlines.start) if self.not_joined() else None

    def _check_deadlines(self, now: float) -> None:
        if self.state is State.RUNNING:
            self._check_running(now)
        elif any(at is not None and now >= at for at in self._deadlines_ahead()):
            if self.state is State.DRAINING:
                self._end_all(self.cause, now, signal.SIGTERM)
            elif self.state is State.TERMINATING:
                self._kill_all(now)

    def _check_running(self, now: float) -> None:
        total, start, evaluator = self._deadlines_ahead()
        if total is not None and now >= total:
            self._tell(f"the time limit of {self.deadlines.total:g} s is over")
            self._end_all(Cause(Why.TIME_LIMIT), now, signal.SIGTERM)
        elif start is not None and now >= start:
            missing = self.not_joined()
            names = ", ".join(self.plans[rank].name for rank in missing)
            self._tell(f"{names} did not join the cluster within {self.deadlines.start:g} s")
            self._end_all(Cause(Why.NOT_STARTED, missing), now, signal.SIGTERM)
        elif evaluator is not None and now >= evaluator:
            self._tell("training is over; ending the evaluator, which goes on")
            self._end_all(None, now, signal.SIGTERM)

    def _look_for_early_leavers(self, now: float) -> None:
        """Fail when somebody waits for a worker whose program has ended without joining."""
        if self.state is not State.RUNNING or self._first_joined_at is None or self._is_debugging():
            return
        gone = tuple(rank for rank in self.not_joined() if self.workers[rank].left_early)
        waiting = [rank for rank in self._living_trainers() if self.workers[rank].joined]
        if gone and waiting:
            names = ", ".join(self.plans[rank].name for rank in gone)
            self._tell(f"{names} ended without joining the cluster; its peers wait in vain")
            self._end_all(Cause(Why.LEFT_EARLY, gone), now, signal.SIGTERM)

    # Ending

    def _enter(self, state: State, now: float, seconds: float, cause: Cause | None) -> None:
        self.state, self._phase_ends = state, now + seconds
        self.cause = self.cause or cause

    def _end_all(self, cause: Cause | None, now: float, signum: int) -> None:
        if cause and cause.why is Why.SIGNAL:
            self.cause = cause  # what the user wants now outranks what went wrong before
        self._enter(State.TERMINATING, now, self.deadlines.grace, cause)
        self._signal_living(signum)

    def _kill_all(self, now: float) -> None:
        self._enter(State.KILLING, now, 0.0, None)
        self._phase_ends = None  # nothing survives SIGKILL
        self._signal_living(signal.SIGKILL)

    def _signal_living(self, signum: int) -> None:
        for rank, worker in enumerate(self.workers):
            leaving = worker.failed_at is not None and signum != signal.SIGKILL
            if worker.alive and not leaving:
                early = signum == signal.SIGINT and not worker.running
                fitting = signal.SIGTERM if early else signum  # Python starting up cries at SIGINT
                worker.ended_by = worker.ended_by or fitting
                self._actions.append(Kill(rank, fitting))

    # Questions

    def _is_debugging(self) -> bool:
        pairs = zip(self.plans, self.workers, strict=True)
        return any(plan.foreground and worker.alive for plan, worker in pairs)

    def _drain(self) -> float:
        """How long the peers of a failed worker have; without a cluster they wait in vain."""
        return self.deadlines.drain if not self.not_joined() else 0.0

    def not_joined(self) -> tuple[int, ...]:
        """The ranks that are expected to join the cluster and have not."""
        return tuple(
            rank
            for rank, worker in enumerate(self.workers)
            if self.plans[rank].joins and not worker.joined
        )

    def _living_trainers(self) -> list[int]:
        return [
            rank
            for rank, worker in enumerate(self.workers)
            if self.plans[rank].joins and worker.alive
        ]

    def _tell(self, text: str) -> None:
        self._actions.append(Tell(text))


def _after(start: float | None, seconds: float | None) -> float | None:
    return None if start is None or seconds is None else start + seconds
