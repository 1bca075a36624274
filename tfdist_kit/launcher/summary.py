"""The end of a run in words: what went wrong first, told plainly; the rest as consequences."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfdist_kit.launcher.failure import Failure
from tfdist_kit.launcher.outcome import Outcome
from tfdist_kit.launcher.plan import RunPlan, WorkerPlan
from tfdist_kit.launcher.state import Why
from tfdist_kit.launcher.supervisor import Supervisor

TRACEBACK_LINES = 40
OUTPUT_LINES = 10
LINE_LENGTH = 500
_TAIL_BYTES = 16384
_GRAPH_NOISE = ("Graph execution error", "Detected at node", "File ", "[[{{node")
_UNHEALTHY = re.compile(r"unhealthy.*?((?:\s*/job:\w+/(?:replica:\d+/)?task:\d+)+)", re.DOTALL)
_NO_ANSWER = "CoordinationService/Heartbeat"
_TASK = re.compile(r"/job:(\w+)/(?:replica:\d+/)?task:(\d+)")
_SIGNAL_HINTS: Mapping[int, str] = {
    signal.SIGKILL: " (out of memory? look at the kernel's log)",
    signal.SIGSEGV: " (a crash in native code)",
    signal.SIGABRT: " (native code gave up; its message is among the last lines)",
}


def summarise(
    plan: RunPlan,
    supervisor: Supervisor,
    failures: Mapping[int, Failure],
    outcome: Outcome,
    *,
    places: Sequence[str] = (),
    earlier: Sequence[str] = (),
    not_restarted: str = "",
) -> str:
    """Describe a finished run for a person.

    Args:
        plan: Of the last attempt, as are `supervisor`, `failures` and `places`.
        supervisor: Its final state.
        failures: What failed workers recorded, by rank.
        outcome: The end of the run.
        places: Where the workers were before they were ended, a line each.
        earlier: A line for each earlier attempt.
        not_restarted: Why there was no further attempt, if one was allowed in principle.

    Returns:
        Several lines without a final newline; one line for a run that went well at once.
    """
    story = _Story(plan, supervisor, failures, outcome, places, not_restarted)
    return "\n".join(map(shorten, (*earlier, *story.lines())))


def why(
    plan: RunPlan, supervisor: Supervisor, failures: Mapping[int, Failure], outcome: Outcome
) -> str:
    """Why an attempt failed, in a line."""
    return shorten(_Story(plan, supervisor, failures, outcome).headline())


@dataclass(frozen=True)
class _Story:
    plan: RunPlan
    supervisor: Supervisor
    failures: Mapping[int, Failure]
    outcome: Outcome
    places: Sequence[str] = ()
    not_restarted: str = ""

    def lines(self) -> Iterator[str]:
        seconds = f"{self.outcome.seconds:.1f} s"
        if count := self.outcome.restarts:
            seconds += f" with {count} restart{'' if count == 1 else 's'}"
        if self.outcome.exit_code == 0:
            count = len(self.plan.workers)
            workers = "1 worker" if count == 1 else f"{count} workers"
            spite = f" in spite of {self._signal()}" if self.outcome.cause is not None else ""
            yield f"done: {workers} in {seconds}{spite}; logs in {self.plan.run_dir}"
            return
        if self.outcome.preempted is not None:
            yield from self._preempted(seconds)
            return
        yield f"FAILED with exit code {self.outcome.exit_code} after {seconds}: {self.headline()}"
        if self.places:
            yield "--- where the workers were (all of it in each rank's stacks.txt)"
            yield from self.places
        yield from self._details()
        if self.not_restarted:
            yield f"not restarted: {self.not_restarted}"
        yield f"logs in {self.plan.run_dir}"

    def _preempted(self, seconds: str) -> Iterator[str]:
        yield (
            f"PREEMPTED with exit code {self.outcome.exit_code} after {seconds}: tfdist received "
            f"{self._signal()}; start the run again to go on"
        )
        saved = [rank for rank, worker in enumerate(self.supervisor.workers) if worker.saved]
        if saved:
            yield f"saved: {self._names(saved)}"
        yield f"logs in {self.plan.run_dir}"

    def _signal(self) -> str:
        """The name of the signal that was meant for the run as a whole."""
        cause = self.outcome.cause
        return signal_name(self.outcome.preempted or (cause.signum if cause else 0))

    def headline(self) -> str:
        cause = self.outcome.cause
        if cause is None:
            return "no cause is known"
        names = self._names(cause.ranks)
        match cause.why:
            case Why.SIGNAL:
                return f"tfdist received {signal.Signals(cause.signum).name}"
            case Why.TIME_LIMIT:
                return f"the time limit of {self.plan.deadlines.total:g} s was over (--timeout)"
            case Why.STALLED:
                limit = f"{self.plan.deadlines.stall:g} s (--stall-timeout)"
                return f"no sign of life came from {names} for {limit}"
            case Why.NOT_STARTED:
                return (
                    f"{names} did not join the cluster within {self.plan.deadlines.start:g} s of "
                    "the first worker (--start-timeout); the others wait for it in vain. "
                    "Does every rank make the strategy?"
                )
            case Why.LEFT_EARLY:
                return (
                    f"{names} ended with exit code 0 without joining the cluster, while its peers "
                    "waited for it. Does every rank make the strategy?"
                )
            case Why.FAILURE:
                root = cause.ranks[0] if self.outcome.root is None else self.outcome.root
                return self._blame_of_the_absent(root) or self._what_happened(root)

    def _blame_of_the_absent(self, root: int) -> str:
        """Who is to blame when every failure only says that a peer had gone."""
        failure = self.failures.get(root)
        if failure is None or not failure.aftermath:
            return ""
        victim = f"{self._names([root])} needed it still"
        left = [
            rank
            for rank, worker in enumerate(self.supervisor.workers)
            if worker.returncode == 0 and self.plan.workers[rank].joins
        ]
        silent = [rank for rank in self._called_silent(failure) if rank not in (*left, root)]
        if silent:
            return f"{self._names(silent)} stopped answering, frozen or starved; {victim}"
        if left:
            return (
                f"{self._names(left)} ended with exit code 0 while {victim}. "
                "Did it run fewer steps than its peers?"
            )
        return ""

    def _called_silent(self, failure: Failure) -> list[int]:
        """The ranks that TensorFlow says, or lets see, no longer send heartbeats."""
        if told := _UNHEALTHY.search(failure.message):
            tasks = {f"{job}:{index}" for job, index in _TASK.findall(told[1])}
            return [worker.rank for worker in self.plan.workers if worker.task in tasks]
        # The leader counts the heartbeats; nobody but it can fail to answer one.
        return [0] if _NO_ANSWER in failure.message and "Deadline" in failure.message else []

    def _what_happened(self, rank: int) -> str:
        name, failure = self._names([rank]), self.failures.get(rank)
        if failure is not None:
            at = f" at {failure.where}" if failure.where else ""
            if failure.kind == "exit":
                return f"{name} called sys.exit({shorten(failure.message)}){at}"
            text = headline(failure.message)
            return f"{name} raised {failure.type}{': ' if text else ''}{text}{at}"
        worker = self.supervisor.workers[rank]
        code = worker.returncode
        if code is not None and code < 0:
            return f"{name} was killed by {signal_name(-code)}{_SIGNAL_HINTS.get(-code, '')}"
        if worker.told_of_failure:
            return f"{name} failed with exit code {code}, and could not write error.json"
        return f"{name} left with exit code {code} without an exception"

    def _details(self) -> Iterator[str]:
        cause, root = self.outcome.cause, self.outcome.root
        if cause is None or cause.why is Why.SIGNAL:
            return
        if cause.why is not Why.FAILURE or root is None:
            for rank in cause.ranks or range(len(self.plan.workers)):
                yield from _last_output(self.plan.workers[rank])
            return
        yield from self._evidence(root)
        for rank in self.outcome.others:
            later = self.failures.get(rank)
            kind = "consequence" if later is not None and later.aftermath else "also"
            yield f"{kind}: {self._what_happened(rank)}"

    def _evidence(self, rank: int) -> Iterator[str]:
        failure = self.failures.get(rank)
        if failure is None or failure.kind != "exception":
            yield from _last_output(self.plan.workers[rank])
            return
        yield f"--- traceback of {self._names([rank])}"
        lines = failure.traceback.rstrip().splitlines()
        if len(lines) > TRACEBACK_LINES:
            half = TRACEBACK_LINES // 2
            lines = [*lines[:half], f"  ... {len(lines) - 2 * half} lines ...", *lines[-half:]]
        yield from lines
        if failure.hint:
            yield f"hint: {failure.hint}"

    def _names(self, ranks: Iterable[int]) -> str:
        return ", ".join(self.plan.workers[rank].name for rank in ranks)


def headline(message: str) -> str:
    """The line of an exception's text that says most.

    TensorFlow's errors in graphs start with where the graph was made; that is skipped.
    """
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    telling = (line for line in lines if not line.startswith(_GRAPH_NOISE))
    return shorten(next(telling, lines[0] if lines else ""))


def shorten(line: str) -> str:
    """Keep a line readable; the whole of it is in the run folder."""
    return line if len(line) <= LINE_LENGTH else f"{line[:LINE_LENGTH]}..."


def signal_name(signum: int) -> str:
    """A signal's name, or its number if it has none."""
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"signal {signum}"


def _last_output(worker: WorkerPlan) -> Iterator[str]:
    for stream in ("stdout", "stderr"):
        lines = tail(worker.folder / f"{stream}.log", OUTPUT_LINES)
        if lines:
            yield f"--- last lines of {worker.name}, {stream}"
            yield from lines


def tail(path: Path, count: int) -> list[str]:
    """The last `count` lines of a file; none when there is no such file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    lines = [line.rpartition("\r")[2] for line in text.rstrip().split("\n")]
    return [line for line in lines if line][-count:]
