"""What became of a test in each worker, and what that makes of the test.

a call's outcome, pytest's reports -> Verdict per rank -> merge: passed, skipped, xfailed, failed
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from tfdist_kit.launcher.clusters.outcomes import CallOutcome, RankOutcome
from tfdist_kit.testing.inside import Ran, RankEnded
from tfdist_kit.testing.output import trimmed

Kind = Literal[
    "passed",
    "xpassed",
    "xpassed strictly",
    "failed",
    "skipped",
    "xfailed",
    "crashed",
    "timed out",
    "aborted",
    "not started",
]
Result = Literal["passed", "skipped", "xfailed", "failed"]
_XPASS = "[XPASS(strict)]"


@dataclass(frozen=True)
class Verdict:
    """What became of a test in one worker.

    Attributes:
        rank: The worker.
        name: How messages call it.
        kind: What became of it; ``aborted`` is the consequence of another rank's end.
        text: Why, in a line.
        reports: What its pytest reported.
        ran: Whatever else came back from it.
        stacks: Where it was, if it did not come to an end.
        monotonic: When it failed, on the machine's monotonic clock, in seconds.
    """

    rank: int
    name: str
    kind: Kind
    text: str = ""
    reports: tuple[pytest.TestReport, ...] = ()
    ran: Ran | None = None
    stacks: str = ""
    monotonic: float = math.inf

    @property
    def telling(self) -> pytest.TestReport | None:
        """The report that says why it did not pass."""
        failed = (report for report in self.reports if report.failed)
        return next(failed, next((each for each in self.reports if not each.passed), None))

    def to_dict(self) -> dict[str, Any]:
        """As plain data: rank, name, kind, and phase, path, line and message of what went wrong."""
        telling = self.telling
        crash = getattr(telling.longrepr, "reprcrash", None) if telling is not None else None
        return {
            "rank": self.rank,
            "name": self.name,
            "kind": self.kind,
            "phase": telling.when if telling is not None else "",
            "path": crash.path if crash is not None else "",
            "line": crash.lineno if crash is not None else 0,
            "message": crash.message if crash is not None else self.text,
        }


@dataclass(frozen=True)
class Merged:
    """What that makes of the test.

    Attributes:
        result: What became of it.
        verdicts: In rank order.
        cause: The rank that decided it; None when all passed.
        together: What the places mean together at which some had not come to an end.
    """

    result: Result
    verdicts: tuple[Verdict, ...]
    cause: Verdict | None
    together: tuple[str, ...] = ()


def verdicts(config: pytest.Config, outcome: CallOutcome) -> tuple[Verdict, ...]:
    """The verdict of each rank.

    Args:
        config: Whose reports they become.
        outcome: How the call of `inside.run_item` went.
    """
    return tuple(_verdict(config, rank) for rank in outcome.ranks)


def _verdict(config: pytest.Config, outcome: RankOutcome) -> Verdict:
    rank, name = outcome.rank, outcome.name
    if outcome.kind in ("timed out", "aborted"):
        kind: Kind = "timed out" if outcome.kind == "timed out" else "aborted"
        return Verdict(rank, name, kind, outcome.where, stacks=trimmed(outcome.stacks))
    if outcome.kind == "died":
        return Verdict(rank, name, "crashed", outcome.where.removeprefix("was "))
    ended = outcome.error
    ran = ended.ran if isinstance(ended, RankEnded) else outcome.value
    if not isinstance(ran, Ran):
        told = outcome.failure.message if outcome.failure else "it told nothing"
        return Verdict(rank, name, "not started", told)
    trouble = ended.trouble if isinstance(ended, RankEnded) else ""
    return _reported(config, outcome, ran, trouble)


def _reported(config: pytest.Config, outcome: RankOutcome, ran: Ran, trouble: str) -> Verdict:
    """The verdict of a rank whose pytest has come to an end."""
    hook = config.hook
    reports = tuple(
        hook.pytest_report_from_serializable(config=config, data=data) for data in ran.reports
    )
    kind, text = _kind_of(reports)
    if ran.quit:
        kind, text = "failed", f"pytest was left: {ran.quit}"
    elif trouble or (kind == "passed" and outcome.kind != "returned"):
        kind, text = "failed", trouble or "the test did not come to its end"
    if kind == "failed" and outcome.failure is not None and outcome.failure.aftermath:
        kind = "aborted"
    when = outcome.failure.monotonic if outcome.failure is not None else math.inf
    return Verdict(outcome.rank, outcome.name, kind, text, reports, ran, monotonic=when)


def _kind_of(reports: Sequence[pytest.TestReport]) -> tuple[Kind, str]:
    failed = [each for each in reports if each.failed]
    strict = [each for each in failed if str(each.longrepr).startswith(_XPASS)]
    whole = [each for each in reports if type(each) is pytest.TestReport]  # not a part of the test
    skipped = [each for each in whole if each.skipped and not hasattr(each, "wasxfail")]
    expected = [each for each in whole if hasattr(each, "wasxfail")]
    if len(failed) > len(strict):
        return "failed", headline(next(each for each in failed if each not in strict))
    if strict:
        return "xpassed strictly", str(strict[0].longrepr)
    if expected:
        kind: Kind = "xfailed" if expected[0].skipped else "xpassed"
        return kind, expected[0].wasxfail
    return ("skipped", _reason(skipped[0])) if skipped else ("passed", "")


def _reason(report: pytest.TestReport) -> str:
    told: Any = report.longrepr
    text = told[2] if isinstance(told, tuple) else str(told)
    return text.removeprefix("Skipped: ")


def headline(report: pytest.TestReport) -> str:
    """Where and why a report failed, in a line."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is None:
        return (str(report.longrepr).strip().splitlines() or [""])[-1]
    message = (crash.message.strip().splitlines() or [""])[0]
    phase = "" if report.when == "call" else f" in {report.when}"
    path = os.path.relpath(crash.path)
    path = crash.path if path.startswith("..") else path
    place = "" if "/site-packages/" in crash.path else f"{path}:{crash.lineno}"
    return f"{place}{phase}: {message}".removeprefix(": ").strip()


def merge(ranks: Sequence[Verdict], together: Sequence[str] = ()) -> Merged:
    """What the verdicts make of the test.

    A rank that failed decides; then one that failed as expected, in consequence of which others
    may have been aborted; then one that was skipped.

    Args:
        ranks: The verdicts, in rank order.
        together: What the places mean together at which some had not come to an end.
    """
    cause = (
        _first(ranks, ("failed", "crashed", "not started", "timed out"))
        or _first(ranks, ("xfailed",))
        or _first(ranks, ("aborted", "xpassed strictly", "skipped"))
    )
    result: Result = "passed" if cause is None else "failed"
    if cause is not None and cause.kind in ("xfailed", "skipped"):
        result = cause.kind
    return Merged(result, tuple(ranks), cause, tuple(together))


def _first(ranks: Sequence[Verdict], kinds: Sequence[Kind]) -> Verdict | None:
    """The earliest of the first of these kinds that there is."""
    found = [verdict for verdict in ranks if verdict.kind in kinds]
    found.sort(key=lambda verdict: (kinds.index(verdict.kind), verdict.monotonic, verdict.rank))
    return next(iter(found), None)
