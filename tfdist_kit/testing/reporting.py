"""The report of a test that ran in workers: the root cause as pytest shows it, then the rest.

Merged -> traceback of the rank that failed first, the vector of all ranks, their output
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tfdist_kit.testing.marker import Wish
from tfdist_kit.testing.verdicts import Merged, Verdict

_BREAKPOINT = "to stop in a worker with a debugger, give it the terminal: --tfdist-debug-rank=RANK"


@dataclass(frozen=True)
class Told:
    """All that is known of a test that ran in workers.

    Attributes:
        merged: What became of it.
        wish: The cluster that it wanted.
        output: What the workers wrote, by a title.
        notes: What else is to be known, a line each.
    """

    merged: Merged
    wish: Wish
    output: Mapping[str, str]
    notes: tuple[str, ...]


def vector(told: Told) -> str:
    """What became of the test in each rank, a line each."""
    ranks, cause = told.merged.verdicts, told.merged.cause
    width = max(len(verdict.name) for verdict in ranks)
    lines = []
    for verdict in ranks:
        mark = ">" if verdict is cause and len(ranks) > 1 else " "
        text = f": {verdict.text.splitlines()[0]}" if verdict.text else ""
        lines.append(f"{mark} {verdict.name:{width}}  {verdict.kind}{text}")
    replicas = told.wish.local_replicas
    if replicas > 1:
        lines.append(f"{replicas} replicas in each worker, by a hook that TensorFlow does not have")
    lines += [_BREAKPOINT] if cause is not None and cause.text.endswith("bdb.BdbQuit") else []
    return "\n".join((*lines, *told.notes))


def amend(report: pytest.TestReport, told: Told) -> None:
    """Make a test's report tell what happened in the workers.

    Its attribute ``tfdist_verdicts`` is what `Verdict.to_dict` says of each rank; it stays when
    pytest-xdist sends the report on.

    Args:
        report: pytest's report of the call.
        told: What happened.
    """
    verdicts = [verdict.to_dict() for verdict in told.merged.verdicts]
    setattr(report, "tfdist_verdicts", verdicts)  # noqa: B010  # not declared by pytest
    cause = told.merged.cause
    _overrule(report, told)
    if cause is not None:
        _tell_cause(report, told, cause)
    report.sections += _sections(told)
    for verdict in told.merged.verdicts:
        for theirs in verdict.reports:
            report.user_properties += theirs.user_properties if theirs.when == "call" else []


def _overrule(report: pytest.TestReport, told: Told) -> None:
    """What the workers have found counts: they know the marks that were made there, too."""
    expected = next((each.text for each in told.merged.verdicts if each.kind == "xpassed"), None)
    if told.merged.result == "failed":
        report.outcome = "failed"
        report.__dict__.pop("wasxfail", None)
    elif told.merged.result == "passed":
        report.outcome, report.longrepr = "passed", None
        report.__dict__.pop("wasxfail", None)
        if expected is not None:
            report.wasxfail = expected


def show(told: Told) -> None:
    """Print what the workers wrote; for sessions that capture nothing."""
    for title, text in told.output.items():
        print(f"\n--- {title.removeprefix('Captured ')}\n{text}", end="")


def _tell_cause(report: pytest.TestReport, told: Told, cause: Verdict) -> None:
    telling = cause.telling
    if report.skipped and telling is not None:
        report.longrepr = telling.longrepr  # the place of the skip, which is in the worker
        return
    traceback: Any = telling.longrepr if telling is not None else None
    if hasattr(traceback, "addsection"):
        report.longrepr = traceback
        traceback.addsection("workers", vector(told), "-")
        _say_where(report, cause)
    else:
        report.longrepr = "\n".join((*_without_traceback(told.merged, cause), vector(told)))


def _without_traceback(merged: Merged, cause: Verdict) -> Iterator[str]:
    """A failure that has no traceback: what it was, and what the workers' places mean."""
    yield f"{cause.name} {cause.kind}: {cause.text}" if cause.text else f"{cause.name} {cause.kind}"
    yield from merged.together
    yield ""


def _say_where(report: pytest.TestReport, cause: Verdict) -> None:
    """Name the rank in the headline of the failure."""
    path, line, domain = report.location
    report.location = (path, line, f"{domain}, {cause.name}")


def _sections(told: Told) -> Iterator[tuple[str, str]]:
    merged = told.merged
    for verdict in merged.verdicts:
        if verdict is not merged.cause and verdict.kind == "failed" and verdict.telling is not None:
            yield f"{verdict.name} failed, too", verdict.telling.longreprtext
    yield from told.output.items()
    for verdict in merged.verdicts:
        for title, text in verdict.reports[-1].sections if verdict.reports else ():
            yield f"{title}, {verdict.name}", text
        if verdict.stacks:
            yield f"Stacks of {verdict.name}", verdict.stacks
