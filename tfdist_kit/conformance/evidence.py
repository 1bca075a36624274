"""What one check has shown: from pytest's report and the verdict of each rank to a result.

TestReport (with ``tfdist_verdicts`` if it ran in workers) -> Result: held, failed, broken, ...

A failure of the test itself is one of TensorFlow. A failure of what the test stands on (a fixture,
the cluster's start, the kit's own refusals) is one of the rig, and proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from tfdist_kit.conformance.scrub import scrubbed

Kind = Literal["held", "failed", "timed out", "skipped", "broken"]

_RIG = re.compile(
    r"^(Failed: )?TFD\d+:|^ModuleNotFoundError:|^tfdist_kit\._errors\."
    r"(UsageError|UnsupportedVersionError|MissingDependencyError|ClusterError|ExchangeError)\b"
)
_DRIVEN_TIMEOUT = "tfdist_kit._errors.ClusterTimeoutError"
_KILLED_FROM_OUTSIDE = re.compile(r"SIGKILL|SIGTERM")
_MUTANT = "tfdist_kit.conformance.marks.MutantError"


@dataclass(frozen=True)
class Rank:
    """What became of a check in one worker.

    Attributes:
        rank: The worker.
        name: How messages call it.
        kind: As `tfdist_kit.testing.verdicts.Verdict` has it.
        text: Why, the same in each run.
    """

    rank: int
    name: str
    kind: str
    text: str = ""


@dataclass(frozen=True)
class Result:
    """What became of a check.

    Attributes:
        check: Its node id.
        kind: ``held``; ``failed`` or ``timed out``; ``skipped``; ``broken`` where the rig was.
        text: Why it did not hold.
        ranks: In each worker; empty if it did not run in workers.
        seconds: How long it took.
        mutant: The mutant that it ran under; empty if none.
    """

    check: str
    kind: Kind
    text: str = ""
    ranks: tuple[Rank, ...] = ()
    seconds: float = 0.0
    mutant: str = ""

    @property
    def ranks_differ(self) -> bool:
        """Whether the workers came to different ends, and not just in consequence of another."""
        return len({rank.kind for rank in self.ranks if rank.kind != "aborted"}) > 1

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Result:
        """From what `to_dict` gave."""
        return cls(**{**data, "ranks": tuple(Rank(**rank) for rank in data["ranks"])})


def result_of(report: pytest.TestReport, folder: Path | None, mutant: str = "") -> Result:
    """The result of a check from the report that says how it ended.

    Args:
        report: Of the call; of setup or teardown where that failed.
        folder: The suite's.
        mutant: What it ran under.
    """
    told = getattr(report, "tfdist_verdicts", None)
    if told is not None:
        ranks = tuple(_rank(each, folder) for each in told)
        kind, text = _in_workers(told, ranks)
    else:
        ranks = ()
        kind, text = _alone(report)
    if report.when == "teardown" and kind == "failed":
        kind = "broken"
    return Result(
        report.nodeid, kind, scrubbed(text, folder), ranks, round(report.duration, 3), mutant
    )


def _rank(told: Mapping[str, Any], folder: Path | None) -> Rank:
    kind = told["kind"]
    if kind in ("passed", "aborted"):  # where an aborted one was is chance
        return Rank(told["rank"], told["name"], kind)
    place = f"{told['path']}:{told['line']}: " if told["path"] and kind != "skipped" else ""
    return Rank(told["rank"], told["name"], kind, scrubbed(f"{place}{told['message']}", folder))


def _in_workers(told: Sequence[Mapping[str, Any]], ranks: Sequence[Rank]) -> tuple[Kind, str]:
    """The most telling of the ranks' kinds, and what it says."""
    found = {_kind(each): rank for each, rank in reversed(list(zip(told, ranks, strict=True)))}
    for kind in ("broken", "failed", "timed out", "skipped"):
        if kind in found:
            if kind == "skipped" and "held" in found:
                return "failed", _differing(ranks)
            return kind, _said(found[kind])
    return "held", ""


def _said(rank: Rank) -> str:
    return f"{rank.kind}: {rank.text}" if rank.kind in ("crashed", "timed out") else rank.text


def _differing(ranks: Sequence[Rank]) -> str:
    return "the ranks differ: " + ", ".join(f"{rank.name} {rank.kind}" for rank in ranks)


def _kind(told: Mapping[str, Any]) -> Kind | None:
    kind, message = told["kind"], told["message"]
    if kind == "aborted":
        return None
    if kind == "passed":
        return "held"
    if kind in ("timed out", "skipped"):
        return "timed out" if kind == "timed out" else "skipped"
    if kind == "crashed":
        return "broken" if _KILLED_FROM_OUTSIDE.search(message) else "failed"
    if kind == "failed" and told["phase"] == "call" and not _RIG.search(message):
        return "failed"
    return "broken"  # not started, a fixture that failed, a refusal of the kit; also any xfail


def _alone(report: pytest.TestReport) -> tuple[Kind, str]:
    """A check that ran in pytest's own process, or did not come to its workers."""
    if report.skipped:
        reason: Any = report.longrepr
        text = reason[2] if isinstance(reason, tuple) else str(reason)
        kind: Kind = "broken" if hasattr(report, "wasxfail") else "skipped"
        return kind, text.removeprefix("Skipped: ")
    if report.passed:
        return ("broken", "it is marked xfail") if hasattr(report, "wasxfail") else ("held", "")
    crash = getattr(report.longrepr, "reprcrash", None)
    message = crash.message if crash is not None else str(report.longrepr)
    text = f"{crash.path}:{crash.lineno}: {message}" if crash is not None else message
    if message.startswith(_DRIVEN_TIMEOUT):
        return "timed out", f"timed out: {text}"
    rig = _RIG.search(message) or _MUTANT in message
    return ("failed" if report.when == "call" and not rig else "broken"), text
