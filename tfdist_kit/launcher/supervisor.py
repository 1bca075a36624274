"""Decides what happens to a running cluster. Never waits, never touches a process.

    message (what happened) -> Supervisor.handle -> actions (what to do)

``attempt`` feeds it messages from real processes, tests feed it histories. A run goes through

    running -> draining or dumping -> terminating -> killing -> over

A failure starts the draining: the peers of a failed worker may still end by themselves, most with
an error of their own. Whoever remains is sent SIGTERM, and SIGKILL after the grace period,
because TensorFlow swallows SIGTERM once a strategy exists. Both wait for workers that are saving
(see `saves`). A run that hangs is first asked where its workers are (dumping). A run in which
every worker ends well goes from running to over directly, and a notice (see `signals`) is only
passed on. While a worker is being debugged, only a signal to the launcher ends anything.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable
from dataclasses import dataclass, field

from tfdist_kit.launcher import exits
from tfdist_kit.launcher.hangs.silence import Silence
from tfdist_kit.launcher.messages import (
    Action,
    Alive,
    Dump,
    Dumped,
    Exited,
    Explain,
    Kill,
    Listening,
    Message,
    NotStarted,
    Paused,
    Progress,
    Release,
    Said,
    Signalled,
    Tell,
    Tick,
)
from tfdist_kit.launcher.plan import WorkerPlan
from tfdist_kit.launcher.request import Deadlines
from tfdist_kit.launcher.saves import Saves
from tfdist_kit.launcher.signals import NOTICES
from tfdist_kit.launcher.state import Cause, State, Why, WorkerState

TIME_LIMIT_EXIT = 124
LEFT_EARLY_EXIT = 1
LEAVE_WAIT = 5.0
"""How long a worker that has finished is kept for the sake of its peers, in seconds."""
DUMP_SECONDS = 2.0
SETTLE_SECONDS = 0.05
"""For the end of a killed worker to be seen: its peers cry before the kernel has taken it down."""
_LETS_WORK = (State.RUNNING, State.DRAINING)


@dataclass
class Supervisor:
    """The state of one attempt.

    Args:
        plans: The workers, in rank order.
        deadlines: How long each phase may take.
        started: The time of the start, on the clock of all later calls, in seconds.
        run_started: When the run's first attempt was started, if this is a later one.

    Attributes:
        state: Where the run stands.
        cause: Why it is being ended, if it is.
        notice: The first notice that the launcher received, if any.
        workers: What is known of each, in rank order.
    """

    plans: tuple[WorkerPlan, ...]
    deadlines: Deadlines
    started: float
    run_started: float | None = None
    state: State = State.RUNNING
    cause: Cause | None = None
    notice: int | None = None
    workers: list[WorkerState] = field(init=False)
    _actions: list[Action] = field(init=False, default_factory=list)
    _phase_ends: float | None = field(init=False, default=None)
    _first_joined_at: float | None = field(init=False, default=None)
    _training_over_at: float | None = field(init=False, default=None)
    _dump_ends: float | None = field(init=False, default=None)
    _silence: Silence = field(init=False)
    _saves: Saves = field(init=False)

    def __post_init__(self) -> None:
        self.workers = [WorkerState() for _ in self.plans]
        self._silence = Silence(self.deadlines.stall)
        self._saves = Saves(self.deadlines.save)

    def handle(self, message: Message, now: float) -> list[Action]:
        """Take note of `message` at the time `now` and say what is to be done."""
        match message:
            case Said(rank, phase):
                self._silence.heard(rank, now)
                self._on_said(rank, phase, now)
            case Alive(rank):
                self._silence.heard(rank, now)
            case Progress(rank, step):
                self._silence.heard(rank, now)
                self._on_step(rank, step)
            case Listening(rank):
                self._on_joined(rank, now)
            case Exited(rank, returncode):
                self._on_exited(rank, returncode, now)
            case NotStarted(rank):
                self.workers[rank].ended_by = signal.SIGTERM
                self.workers[rank].never_started = True
                self._on_exited(rank, 0, now)
            case Signalled(signum):
                self._on_signal(signum, now)
            case Dumped():
                self._on_dumped(now)
            case Paused(seconds):
                self._on_pause(seconds)
            case Tick():
                self._look_for_silence(now)
        self._look_for_early_leavers(now)
        self._check_deadlines(now)
        self._release_finished(now)
        actions, self._actions = self._actions, []
        return actions

    def next_deadline(self) -> float | None:
        """When `handle` has to be called again even if nothing happens."""
        ahead = (
            *self._deadlines_ahead(),
            self._stall_deadline(),
            self._dump_ends,
            *map(self._release_deadline, self.workers),
        )
        return min((at for at in ahead if at is not None), default=None)

    # Messages

    def _on_said(self, rank: int, phase: str, now: float) -> None:
        if phase == "running":
            self.workers[rank].running = True
            if self.notice is not None:
                self.workers[rank].told_early = True
                self._pass_on_notice(rank, self.notice)
            if self.plans[rank].joins:
                self._silence.begin(rank, now)
        elif phase in ("joined", "joining"):
            self._on_joined(rank, now)
        elif phase == "heeding":
            self.workers[rank].heeding = True
        elif phase == "watching":
            self.workers[rank].watching = True
        elif phase == "saving":
            self.workers[rank].saving = True
            self._saves.begin(rank, now)
        elif phase == "saved":
            self.workers[rank].saved = True
            self._on_saving_over(rank, now)
        elif phase == "finished":
            self.workers[rank].joined = True
            self.workers[rank].finished_at = now
            self._silence.end(rank)
        elif phase == "finished_without_joining":
            self.workers[rank].left_early = True
            self._silence.end(rank)
        elif phase in ("failed", "preempted"):
            self.workers[rank].told_of_failure = True
            self.workers[rank].told_of_preemption = phase == "preempted"
            self._on_failure(rank, now, at_least=SETTLE_SECONDS)

    def _on_joined(self, rank: int, now: float) -> None:
        is_new = not self.workers[rank].joined
        self.workers[rank].joined = True
        if self.plans[rank].joins and self._first_joined_at is None:
            self._first_joined_at = now
        if is_new and not self.not_joined():
            self._silence.excuse(now)  # they waited for the last one

    def _on_step(self, rank: int, step: int | None) -> None:
        worker = self.workers[rank]
        if step is not None:
            worker.step = step if worker.step is None else max(step, worker.step)

    def _on_saving_over(self, rank: int, now: float) -> None:
        if rank in self._saves.ranks():
            self._saves.end(rank, now)
            self._silence.excuse(now)  # they waited for this save

    def _on_exited(self, rank: int, returncode: int, now: float) -> None:
        worker = self.workers[rank]
        worker.returncode, worker.exited_at = returncode, now
        self._silence.end(rank)
        self._on_saving_over(rank, now)
        if returncode != 0 and worker.ended_by is None:
            self._on_failure(rank, now)
            self._hurry(now)
        if self.plans[rank].foreground and self.state is State.DRAINING:
            self._phase_ends = now + self._drain()
        if not any(worker.alive for worker in self.workers):
            self.state = State.OVER
        elif self._training_over_at is None and not self._living_trainers():
            self._training_over_at = now

    def _on_failure(self, rank: int, now: float, at_least: float = 0.0) -> None:
        worker = self.workers[rank]
        if worker.failed_at is not None:
            return
        worker.failed_at = now
        self._on_saving_over(rank, now)
        if self.state is State.RUNNING:
            drain = 0.0 if self._is_harmless() else self._drain()
            if any(peer.alive for peer in self.workers if peer is not worker):
                was_told = worker.told_of_preemption or worker.returncode in exits.PREEMPTED_CODES
                what = "was preempted" if was_told else "failed"
                self._tell(f"{self.plans[rank].name} {what}; {self._fate_of_peers(drain)}")
            self._enter(State.DRAINING, now, max(drain, at_least), Cause(Why.FAILURE, (rank,)))

    def _fate_of_peers(self, drain: float) -> str:
        if self._is_debugging():
            return "nothing is ended while a worker is being debugged"
        time = f"its peers have {drain:g} s to end{self._and_to_save()}"
        return time if drain else "ending its peers"

    def _hurry(self, now: float) -> None:
        """Cut short a drain that began before it was known that nothing can be lost."""
        ends = self._phase_ends
        if self.state is State.DRAINING and self._is_harmless() and ends is not None and ends > now:
            self._phase_ends = now
            if any(worker.alive for worker in self.workers) and not self._is_debugging():
                self._tell("nobody has trained yet; ending the others")

    def _on_signal(self, signum: int, now: float) -> None:
        if self.state is State.OVER:
            return  # it came with the last worker's end
        name = signal.Signals(signum).name
        if signum == signal.SIGQUIT:
            self._dump(f"{name} was received", now)
        elif signum in NOTICES:
            self._on_notice(signum)
        elif self.state is State.KILLING or (self.cause and self.cause.why is Why.SIGNAL):
            self._tell(f"{name} once more: killing the workers")
            self._kill_all(now)
        else:
            grace = f"{self.deadlines.grace:g} s{self._and_to_save()}"
            self._tell(f"{name}: passing it on to the workers, which have {grace}")
            self._end_all(Cause(Why.SIGNAL, signum=signum), now, signum)

    def _on_notice(self, signum: int) -> None:
        if self.state not in _LETS_WORK:
            return  # they have been told something stronger
        self.notice = self.notice or signum
        name = signal.Signals(signum).name
        self._tell(f"{name}: passing it on to the workers as a notice; nothing is ended")
        for rank, worker in enumerate(self.workers):
            if worker.running:  # the others are told when their scripts begin
                self._pass_on_notice(rank, signum)

    def _pass_on_notice(self, rank: int, signum: int) -> None:
        worker = self.workers[rank]
        if worker.needs_peers and not worker.left_early and self.state in _LETS_WORK:
            worker.noticed = signum
            self._actions.append(Kill(rank, signum))

    def _on_pause(self, seconds: float) -> None:
        """Give back the time in which the workers' signs were not read; --timeout goes on."""
        self._silence.pause(seconds)
        self._saves.pause(seconds)
        self._first_joined_at = _after(self._first_joined_at, seconds)
        self._training_over_at = _after(self._training_over_at, seconds)
        self._phase_ends = _after(self._phase_ends, seconds)

    # Time

    def _deadlines_ahead(self) -> list[float | None]:
        if self.state is State.OVER:
            return []
        if self.state in _LETS_WORK and self._is_debugging():
            return [None, None, None]
        began = self.started if self.run_started is None else self.run_started
        if self.state not in _LETS_WORK:
            return [self._saves.hold(self._phase_ends, self.deadlines.grace)]
        total = self._saves.hold(_after(began, self.deadlines.total), self.deadlines.drain)
        if self.state is State.DRAINING:
            return [self._saves.hold(self._phase_ends, self.deadlines.drain), total]
        return [
            total,
            self._start_deadline(),
            _after(self._training_over_at, self.deadlines.evaluator),
        ]

    def _stall_deadline(self) -> float | None:
        """When the first worker will have been silent for too long.

        While workers wait for one that has not joined, the start deadline is theirs, if any.
        """
        excused = self._is_debugging() or (self._first_joined_at is not None and self.not_joined())
        if excused or self.state is not State.RUNNING:
            return None
        at = self._silence.deadline()
        return self._saves.hold(at, 0.0) if self._saves.ranks() else at

    def _start_deadline(self) -> float | None:
        return _after(self._first_joined_at, self.deadlines.start) if self.not_joined() else None

    def _look_for_silence(self, now: float) -> None:
        """End a run that hangs; asked when all that can be read was, so that it hides no sign."""
        at = self._stall_deadline()
        if at is not None and now >= at:
            silent = self._silence.ranks(now)
            what = f"no sign of life from {self._names(silent)} for {self.deadlines.stall:g} s"
            self._end_explained(Cause(Why.STALLED, silent), now, what)

    def _check_deadlines(self, now: float) -> None:
        if self._dump_ends is not None and now >= self._dump_ends:
            self._on_dumped(now)
        if self.state is State.RUNNING:
            self._check_running(now)
        elif any(at is not None and now >= at for at in self._deadlines_ahead()):
            self._give_up_saving(now)
            if self.state is State.DRAINING:
                self._end_all(self.cause, now, signal.SIGTERM)
            elif self.state is State.TERMINATING:
                self._kill_all(now)

    def _give_up_saving(self, now: float) -> None:
        late = self._saves.give_up(now)
        if late and self.state is not State.KILLING:
            limit = f"{self.deadlines.save:g} s (--save-timeout)"
            self._tell(f"{self._names(late)} did not save within {limit}")

    def _check_running(self, now: float) -> None:
        total, start, evaluator = self._deadlines_ahead()
        if total is not None and now >= total:
            what = f"the time limit of {self.deadlines.total:g} s is over"
            self._end_explained(Cause(Why.TIME_LIMIT), now, what)
        elif start is not None and now >= start:
            missing = self.not_joined()
            names = self._names(missing)
            what = f"{names} did not join the cluster within {self.deadlines.start:g} s"
            self._end_explained(Cause(Why.NOT_STARTED, missing), now, what)
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
            names = self._names(gone)
            self._tell(f"{names} ended without joining the cluster; its peers wait in vain")
            self._end_all(Cause(Why.LEFT_EARLY, gone), now, signal.SIGTERM)

    # Leaving

    def _release_finished(self, now: float) -> None:
        """Let the finished leave once nobody can be reading from them, or needs them any more.

        A worker that leaves right after its last collective can break that of a peer, which still
        reads from it; but nobody waits for a peer that runs on alone.
        """
        over = self.state in (State.TERMINATING, State.KILLING) and not self._saves.ranks()
        needed = any(self.workers[rank].needs_peers for rank in self._living_trainers())
        for rank, worker in enumerate(self.workers):
            at = self._release_deadline(worker)
            if at is not None and (over or not needed or now >= at):
                worker.released = True
                self._actions.append(Release(rank))

    def _release_deadline(self, worker: WorkerState) -> float | None:
        leaves_at = _after(worker.finished_at, LEAVE_WAIT) if worker.waits_to_leave else None
        return self._saves.hold(leaves_at, 0.0)

    # Ending

    def _enter(self, state: State, now: float, seconds: float, cause: Cause | None) -> None:
        self.state, self._phase_ends = state, now + seconds
        self.cause = self.cause or cause
        self._saves.run_ends(now)

    def _end_explained(self, cause: Cause, now: float, what: str) -> None:
        """Ask the workers where they are, and end them then."""
        self._tell(f"{what}; asking the workers where they are")
        self._enter(State.DUMPING, now, DUMP_SECONDS, cause)
        self._dump(what, now)

    def _dump(self, reason: str, now: float) -> None:
        if self._dump_ends is None:  # else one that has just been asked for will do
            self._dump_ends = now + DUMP_SECONDS
            self._actions.append(Dump(reason, is_last=self.state is State.DUMPING))

    def _on_dumped(self, now: float) -> None:
        if self._dump_ends is None:
            return
        self._dump_ends = None
        self._actions.append(Explain(aloud=self.state is not State.DUMPING))
        if self.state is State.DUMPING:
            self._end_all(self.cause, now, signal.SIGTERM)

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

    def _is_harmless(self) -> bool:
        """Whether those that failed were only interrupted, before anybody had anything to lose.

        Only a program that told that it will report its steps is known not to have made any; or
        that it leaves at once while there is nothing to save, and did.
        """
        failed = [worker for worker in self.workers if worker.failed_at is not None]
        gone = [worker for worker in failed if not worker.alive]
        return (
            bool(gone)
            and all(worker.was_interrupted for worker in gone)
            and (any(worker.watching for worker in self.workers) or self._all_left_early(gone))
            and not any(worker.has_trained for worker in self.workers)
        )

    def _all_left_early(self, gone: list[WorkerState]) -> bool:
        early = [worker for worker in gone if worker.heeding and not worker.watching]
        return early == gone and all(one.returncode == exits.PREEMPTED_EXIT for one in early)

    def _and_to_save(self) -> str:
        may_save = any(worker.alive and worker.watching for worker in self.workers)
        if not self._saves.ranks() and not may_save:
            return ""
        return f", and up to {self.deadlines.save:g} s to save"

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

    def _names(self, ranks: Iterable[int]) -> str:
        return ", ".join(self.plans[rank].name for rank in ranks)

    def _tell(self, text: str) -> None:
        self._actions.append(Tell(text))


def _after(start: float | None, seconds: float | None) -> float | None:
    return None if start is None or seconds is None else start + seconds
