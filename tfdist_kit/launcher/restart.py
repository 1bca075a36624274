"""Whether a finished attempt is followed by another one, and after how long.

    return codes, failures, who was ended by us -> judge -> Verdict -> Budget.decide -> Decision

Only crashes use the budget up. A preemption or a lost worker says nothing against the script, so
the first `FREE_INTERRUPTIONS` of them are free; after that, without progress in between, they
count like crashes, so that a worker which runs out of memory at the same point each time does not
go on for ever. Progress, a step beyond every earlier attempt's, makes the budget whole again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from tfdist_kit.launcher import exits
from tfdist_kit.launcher.failure import Failure
from tfdist_kit.launcher.outcome import Outcome
from tfdist_kit.launcher.request import RestartWish
from tfdist_kit.launcher.state import Why, WorkerState

FREE_INTERRUPTIONS = 3
LONGEST_DELAY = 60.0
SETTLED = 60.0
_MOST_DOUBLINGS = 30  # 2.0**10000 is no number any more


class Verdict(Enum):
    """What a finished attempt was; the value is how people are told."""

    DONE = "done"
    PREEMPTED = "preempted"
    LOST_WORKER = "lost worker"
    CRASH = "crash"
    FATAL = "fatal"
    ENDED = "ended"


_SEVERITY = (Verdict.PREEMPTED, Verdict.LOST_WORKER, Verdict.CRASH, Verdict.FATAL)


def judge(
    workers: Sequence[WorkerState], failures: Mapping[int, Failure], outcome: Outcome
) -> Verdict:
    """Say what a finished attempt was.

    Args:
        workers: How each worker ended, by rank.
        failures: What failed workers recorded, by rank.
        outcome: Why the attempt was ended, and who failed in which order.

    Returns:
        `DONE`; `ENDED` by the user or the time limit; else what the root cause was, or something
        worse that happened to another worker and is no consequence of it.
    """
    if outcome.cause is None or outcome.exit_code == 0:
        return Verdict.DONE
    if outcome.cause.why in (Why.SIGNAL, Why.TIME_LIMIT):
        return Verdict.ENDED
    if outcome.cause.why is not Why.FAILURE or outcome.root is None:
        return Verdict.CRASH
    blamed = [outcome.root]
    blamed += [
        rank
        for rank in outcome.others
        if not workers[rank].obeyed
        and not exits.is_consequence(workers[rank].returncode, failures.get(rank))
    ]
    found = [_verdict_on(workers[rank], failures.get(rank)) for rank in blamed]
    return max(found, key=_SEVERITY.index)


def _verdict_on(worker: WorkerState, failure: Failure | None) -> Verdict:
    """What the end of one worker amounts to; what it recorded counts more than how it died."""
    if failure is not None and failure.fatal and not worker.joined:
        return Verdict.FATAL
    code = worker.returncode if failure is None else failure.exit_code
    if code in exits.PREEMPTED_CODES or exits.is_by_signal(code, worker.noticed):
        return Verdict.PREEMPTED
    return Verdict.LOST_WORKER if code in exits.LOST_CODES else Verdict.CRASH


@dataclass(frozen=True)
class Decision:
    """What follows an attempt.

    Attributes:
        delay: Seconds to wait before the next attempt; None when there is none.
        why: The reason in words; empty when there is nothing to explain.
    """

    delay: float | None
    why: str = ""


@dataclass
class Budget:
    """How many more attempts there may be.

    Args:
        wish: What the user allows.
    """

    wish: RestartWish
    _used: int = 0
    _interruptions: int = 0
    _fruitless: int = 0
    _highest_step: int | None = None

    def decide(self, verdict: Verdict, *, step: int | None, seconds: float) -> Decision:
        """Say what follows an attempt.

        Args:
            verdict: What the attempt was.
            step: The highest step that its workers reported; None for no report.
            seconds: How long it took.
        """
        if not self.wish.limit or verdict in (Verdict.DONE, Verdict.ENDED):
            return Decision(None)
        if verdict is Verdict.FATAL:
            return Decision(None, "it would fail in the same way again")
        if self._made_progress(verdict, step, seconds):
            self._used = self._interruptions = self._fruitless = 0
        counts = self._counts(verdict)
        if counts and self._used == self.wish.limit:
            return Decision(None, f"{self._in_words()} used up")
        self._used += counts
        delay = self._delay()
        self._fruitless += 1
        return Decision(delay, f"{self._in_words()} used" if counts else "not counted as a crash")

    def _made_progress(self, verdict: Verdict, step: int | None, seconds: float) -> bool:
        if step is None and self._highest_step is None:
            # The script reports no steps; whoever is preempted saves what it has done.
            return verdict is Verdict.PREEMPTED and seconds >= SETTLED
        if step is None or (self._highest_step is not None and step <= self._highest_step):
            return False
        self._highest_step = step
        return True

    def _counts(self, verdict: Verdict) -> bool:
        if verdict is Verdict.CRASH:
            return True
        self._interruptions += 1
        return self._interruptions > FREE_INTERRUPTIONS

    def _delay(self) -> float:
        """Doubles with each restart since the last progress."""
        longest = max(LONGEST_DELAY, self.wish.delay)
        return min(longest, self.wish.delay * 2.0 ** min(self._fruitless, _MOST_DOUBLINGS))

    def _in_words(self) -> str:
        limit = self.wish.limit
        return f"{self._used} of {limit} restart{'' if limit == 1 else 's'}"
