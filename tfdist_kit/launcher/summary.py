"""The end of a run in words: what went wrong first, told plainly; the rest as consequences."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

from tfdist_kit.launcher.failure import Failure
from tfdist_kit.launcher.outcome import Outcome
from tfdist_kit.launcher.plan import RunPlan, WorkerPlan
from tfdist_kit.launcher.supervisor import Supervisor, Why

TRACEBACK_LINES = 40
OUTPUT_LINES = 10
_TAIL_BYTES = 16384


def summarise(
    plan: RunPlan, supervisor: Supervisor, failures: Mapping[int, Failure], outcome: Outcome
) -> str:
    """Describe a finished run for a person.

    Returns:
        Several lines without a final newline; one line for a run that went well.
    """
    return "\n".join(_lines(plan, supervisor, failures, outcome))


def _lines(
    plan: RunPlan, supervisor: Supervisor, failures: Mapping[int, Failure], outcome: Outcome
) -> Iterator[str]:
    if outcome.exit_code == 0:
        count = len(plan.workers)
        workers = "1 worker" if count == 1 else f"{count} workers"
        yield f"done: {workers} in {outcome.seconds:.1f} s; logs in {plan.run_dir}"
        return
    yield (
        f"FAILED with exit code {outcome.exit_code} after {outcome.seconds:.1f} s: "
        f"{_headline(plan, supervisor, failures, outcome)}"
    )
    if outcome.root is not None and _is_about_a_worker(outcome):
        yield from _evidence(plan.workers[outcome.root], failures.get(outcome.root))
        yield from _consequences(plan, supervisor, failures, outcome)
    elif outcome.cause and outcome.cause.why is not Why.SIGNAL:
        ranks = outcome.cause.ranks or tuple(range(len(plan.workers)))
        for rank in ranks:
            yield from _last_output(plan.workers[rank])
    yield f"logs in {plan.run_dir}"


def _is_about_a_worker(outcome: Outcome) -> bool:
    return outcome.cause is not None and outcome.cause.why is not Why.SIGNAL


def _headline(
    plan: RunPlan, supervisor: Supervisor, failures: Mapping[int, Failure], outcome: Outcome
) -> str:
    cause = outcome.cause
    if cause is None:
        return "no cause is known"
    names = ", ".join(plan.workers[rank].name for rank in cause.ranks)
    match cause.why:
        case Why.SIGNAL:
            return f"tfdist received {signal.Signals(cause.signum).name}"
        case Why.TIME_LIMIT:
            return f"the time limit of {plan.deadlines.total:g} s was over (--timeout)"
        case Why.NOT_STARTED:
            return (
                f"{names} did not join the cluster within {plan.deadlines.start:g} s of the first "
                "worker (--start-timeout); the others wait for it in vain. "
                "Does every rank make the strategy?"
            )
        case Why.LEFT_EARLY:
            return (
                f"{names} ended with exit code 0 without joining the cluster, while its peers "
                "waited for it. Does every rank make the strategy?"
            )
        case Why.FAILURE:
            rank = cause.ranks[0] if outcome.root is None else outcome.root
            return _what_happened(plan.workers[rank], supervisor, failures.get(rank))


def _what_happened(worker: WorkerPlan, supervisor: Supervisor, failure: Failure | None) -> str:
    if failure is not None:
        at = f" at {failure.where}" if failure.where else ""
        if failure.kind == "exit":
            return f"{worker.name} called sys.exit({failure.message}){at}"
        return f"{worker.name} raised {failure.type}: {headline(failure.message)}{at}"
    code = supervisor.workers[worker.rank].returncode
    if code is not None and code < 0:
        return f"{worker.name} was killed by {_signal_name(-code)}{_SIGNAL_HINTS.get(-code, '')}"
    return f"{worker.name} left with exit code {code} without an exception"


def headline(message: str) -> str:
    """The line of an exception's text that says most.

    TensorFlow's errors in graphs start with where the graph was made; that is skipped.
    """
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    telling = (line for line in lines if not line.startswith(_GRAPH_NOISE))
    return next(telling, lines[0] if lines else "")


_GRAPH_NOISE = ("Graph execution error", "Detected at node", "File ", "[[{{node")
_SIGNAL_HINTS: Mapping[int, str] = {
    signal.SIGKILL: " (out of memory? look at the kernel's log)",
    signal.SIGSEGV: " (a crash in native code)",
    signal.SIGABRT: " (native code gave up; its message is among the last lines)",
}


def _signal_name(signum: int) -> str:
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"signal {signum}"


def _evidence(worker: WorkerPlan, failure: Failure | None) -> Iterator[str]:
    if failure is not None and failure.kind == "exception":
        yield f"--- traceback of {worker.name}"
        lines = failure.traceback.rstrip().splitlines()
        if len(lines) > TRACEBACK_LINES:
            half = TRACEBACK_LINES // 2
            lines = [*lines[:half], f"  ... {len(lines) - 2 * half} lines ...", *lines[-half:]]
        yield from lines
        if failure.hint:
            yield f"hint: {failure.hint}"
    else:
        yield from _last_output(worker)


def _last_output(worker: WorkerPlan) -> Iterator[str]:
    for stream in ("stdout", "stderr"):
        lines = tail(worker.folder / f"{stream}.log", OUTPUT_LINES)
        if lines:
            yield f"--- last lines of {worker.name}, {stream}"
            yield from lines


def _consequences(
    plan: RunPlan, supervisor: Supervisor, failures: Mapping[int, Failure], outcome: Outcome
) -> Iterator[str]:
    root = outcome.root
    failure = failures.get(root) if root is not None else None
    if failure is not None and failure.aftermath:
        yield (
            "This error says that a peer had gone, and no worker failed before it: "
            + _who_had_left(plan, supervisor)
        )
    for rank in outcome.others:
        later = failures.get(rank)
        kind = "consequence" if later is not None and later.aftermath else "also"
        yield f"{kind}: {_what_happened(plan.workers[rank], supervisor, later)}"


def _who_had_left(plan: RunPlan, supervisor: Supervisor) -> str:
    left = [
        worker.name for worker in plan.workers if supervisor.workers[worker.rank].returncode == 0
    ]
    if not left:
        return "a worker froze, or the machine was too busy for its heartbeats."
    return f"{', '.join(left)} ended with exit code 0. Did it run fewer steps than its peers?"


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
