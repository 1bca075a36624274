"""The attempts of one run, one after the other, until one is the last.

    ports -> plan -> attempt -> verdict -> decision -> back-off -> ports -> ... -> Ending

The run folder, the temp files and the console live as long as the run; each attempt has ports of
its own. All workers are started again together, for TensorFlow takes nobody back into a cluster.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tfdist_kit._errors import UsageError
from tfdist_kit.launcher import signals, summary
from tfdist_kit.launcher.attempt import Attempt, Finished, Surroundings
from tfdist_kit.launcher.network.place import Network, network
from tfdist_kit.launcher.outcome import Outcome, cut_short
from tfdist_kit.launcher.output.board import Board
from tfdist_kit.launcher.output.console import Console
from tfdist_kit.launcher.plan import RunPlan, make_plan
from tfdist_kit.launcher.request import RunRequest
from tfdist_kit.launcher.restart import Budget, Decision, Verdict, judge
from tfdist_kit.launcher.run_dir import RunDir, usable
from tfdist_kit.launcher.start.preload import Preloaded
from tfdist_kit.launcher.start.spawn import FreshSpawner, Spawner
from tfdist_kit.launcher.start.start_method import StartMethod
from tfdist_kit.launcher.state import Cause, Why


@dataclass(frozen=True)
class Ending:
    """How a run ended.

    Attributes:
        last: Its last attempt.
        outcome: That of the run: the last attempt's, unless something came after it.
        earlier: A line for each attempt before the last, and for one that nothing came after.
        not_restarted: Why there was no further attempt, if one was allowed in principle.
    """

    last: Finished
    outcome: Outcome
    earlier: tuple[str, ...]
    not_restarted: str = ""

    def told(self) -> str:
        """The whole story for a person."""
        last = self.last
        return summary.summarise(
            last.plan,
            last.supervisor,
            last.failures,
            self.outcome,
            places=last.places,
            earlier=self.earlier,
            not_restarted=self.not_restarted,
        )


@dataclass
class Series:
    """The attempts of one run.

    Args:
        request: What was asked for.
        start: How the workers are started.
        environ: The environment that the workers inherit.
        folder: The run folder.
        scratch: Where the workers' temp files go, if anywhere.
        console: Where the workers' output and our own lines go.
        board: What the status lines tell.
        caught: Where the launcher's signals are read (see `signals.as_bytes`).
    """

    request: RunRequest
    start: StartMethod
    environ: Mapping[str, str]
    folder: RunDir
    scratch: Path | None
    console: Console
    board: Board
    caught: int
    _began: float = field(init=False, default_factory=time.monotonic)
    _earlier: list[str] = field(init=False, default_factory=list)
    _spawner: Spawner | None = field(init=False, default=None)
    _open: contextlib.ExitStack = field(init=False, default_factory=contextlib.ExitStack)
    _held: contextlib.ExitStack = field(init=False, default_factory=contextlib.ExitStack)

    def run(self) -> Ending:
        """Make attempts until one is the last.

        Raises:
            UsageError: The first one could not be started.
        """
        with contextlib.closing(self), self._open:
            return self._run()

    def close(self) -> None:
        """Give the ports back."""
        self._held.close()

    def _run(self) -> Ending:
        budget = Budget(self.request.restarts)
        last = self._attempt(0)
        while True:
            verdict = self._judge(last)
            decision = self._decide(budget, verdict, last)
            if decision.delay is None:
                return self._ending(last, last.outcome, decision.why)
            line = _in_a_line(last, verdict)
            cause = self._back_off(last, line, decision, decision.delay)
            if cause is not None:
                self._earlier.append(line)
                interrupted = verdict in (Verdict.PREEMPTED, Verdict.LOST_WORKER)
                outcome = cut_short(last.outcome, cause, was_interrupted=interrupted)
                return self._ending(last, outcome)
            try:
                following = self._attempt(last.plan.attempt + 1)
            except (UsageError, OSError) as error:  # what came before must still be told
                return self._ending(last, last.outcome, str(error))
            self._earlier.append(f"{line}; restarted after {decision.delay:.3g} s")
            last = following

    def _attempt(self, number: int) -> Finished:
        place = self._new_network()
        plan = make_plan(
            self.request,
            network=place,
            run_dir=self.folder.path,
            scratch=self.scratch,
            environ=self.environ,
            start=self.start,
            attempt=number,
        )
        self.folder.begin(number, plan.to_dict())
        around = Surroundings(
            self.folder, self.environ, self.console, self.board, self.caught, self._began
        )
        return Attempt(plan, around, place, self._spawner_for(plan)).run()

    def _spawner_for(self, plan: RunPlan) -> Spawner:
        """What brings the workers of all attempts to life, made for the first of them."""
        if self._spawner is None:
            self._spawner = FreshSpawner()
            if plan.start.preload:
                environ = {**self.environ, **plan.common_env}
                with usable(plan.run_dir):
                    log = (plan.run_dir / "preload.log").open("wb")
                with log:
                    preloaded = Preloaded(plan.start.preload, environ, log.fileno())
                self._spawner = self._open.enter_context(contextlib.closing(preloaded))
        return self._spawner

    def _new_network(self) -> Network:
        """Choose ports while the old ones are still held, so that they are others."""
        with contextlib.ExitStack() as stack:
            place = stack.enter_context(network(self.request.size, isolate=self.request.isolate))
            self._held.close()
            self._held = stack.pop_all()
        return place

    def _judge(self, last: Finished) -> Verdict:
        verdict = judge(last.supervisor.workers, last.failures, last.outcome)
        self.folder.event(
            "verdict",
            verdict=verdict.value,
            exit_code=last.outcome.exit_code,
            root=last.outcome.root,
            step=_highest_step(last),
        )
        return verdict

    def _decide(self, budget: Budget, verdict: Verdict, last: Finished) -> Decision:
        notice = last.supervisor.notice
        if notice is not None and verdict is Verdict.PREEMPTED and self.request.restarts.limit:
            name = signal.Signals(notice).name
            return Decision(None, f"{name} gave notice to the run as a whole")
        return budget.decide(verdict, step=_highest_step(last), seconds=last.outcome.seconds)

    def _back_off(
        self, last: Finished, line: str, decision: Decision, delay: float
    ) -> Cause | None:
        """Wait before the next attempt; gives what ended the run meanwhile, if anything did."""
        following = last.plan.attempt + 1
        starts = f"attempt {following} starts in {delay:.3g} s"
        self.console.say(f"{line}; {starts} ({decision.why})")
        self.folder.event("back_off", seconds=delay, why=decision.why)
        left = self._time_left()
        signum = signals.wait(self.caught, min(delay, left), self._tell_of_the_wait)
        if signum is not None:
            self.folder.event("received", signum=signum)
            return Cause(Why.SIGNAL, signum=signum)
        if left <= delay:
            return Cause(Why.TIME_LIMIT)
        self.folder.event("restart", following=following)
        return None

    def _tell_of_the_wait(self) -> None:
        self.console.say("no worker runs: all wait for the next attempt to start")

    def _time_left(self) -> float:
        total = self.request.deadlines.total
        return float("inf") if total is None else self._began + total - time.monotonic()

    def _ending(self, last: Finished, outcome: Outcome, not_restarted: str = "") -> Ending:
        """The end of the run, with the time that all of it took."""
        seconds = time.monotonic() - self._began
        of_the_run = replace(outcome, seconds=seconds, restarts=last.plan.attempt)
        return Ending(last, of_the_run, tuple(self._earlier), not_restarted)


def _highest_step(attempt: Finished) -> int | None:
    steps = (worker.step for worker in attempt.supervisor.workers if worker.step is not None)
    return max(steps, default=None)


def _in_a_line(attempt: Finished, verdict: Verdict) -> str:
    why = summary.why(attempt.plan, attempt.supervisor, attempt.failures, attempt.outcome)
    after = f"after {attempt.outcome.seconds:.1f} s"
    return f"attempt {attempt.plan.attempt}: {verdict.value} {after}: {why}"
