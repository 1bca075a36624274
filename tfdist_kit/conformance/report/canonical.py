"""The canonical report: what a run has found as JSON, the same bytes for the same findings.

    Found -> build -> validated -> report.json;  report.json -> read -> validated -> views

It holds no times, paths, ports or process ids; how long things took is in ``timing.json``. A
report that was cut off, or whose run did not come to its end, is refused by whoever reads it.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tfdist_kit._errors import UsageError
from tfdist_kit._version import __version__
from tfdist_kit.conformance.claims import Claim, Deviation, Needs, Register
from tfdist_kit.conformance.evidence import Result
from tfdist_kit.conformance.found import Found
from tfdist_kit.conformance.killing import KILLED, NOT_RUN, Killing
from tfdist_kit.conformance.outcomes import ANSWERED, CONFORMS, UNTESTABLE
from tfdist_kit.conformance.report.schema import violations
from tfdist_kit.conformance.subjects import STOCK

NAME = "report.json"
TIMING = "timing.json"
Report = Mapping[str, Any]


def build(found: Found, register: Register) -> dict[str, Any]:
    """The report of a run."""
    claims = [_claim(found, claim) for claim in found.claims]
    documents = {claim.document for claim in found.claims}
    wish = found.wish
    return {
        "schema": 1,
        "complete": found.complete,
        "trouble": found.trouble,
        "kit": __version__,
        "subject": wish.subject,
        "environment": found.around.to_dict(),
        "selection": {
            "documents": sorted(wish.documents),
            "profile": "core" if wish.quick else wish.profile,
            "claims": sorted(wish.claims),
            "quick": wish.quick,
        },
        "documents": [asdict(each) for each in register.documents if each.name in documents],
        "summary": summary(claims, mutated=found.killings is not None),
        "claims": claims,
    }


def summary(claims: Sequence[Report], *, mutated: bool) -> dict[str, Any]:
    """The numbers of a report: coverage, conformance and, if mutants were run, their score."""
    testable = [claim for claim in claims if claim["outcome"] != UNTESTABLE]
    answered = [claim for claim in claims if claim["outcome"] in ANSWERED]
    conform = [claim for claim in answered if claim["outcome"] == CONFORMS]
    ran = [
        one["result"] for claim in claims for one in claim["mutants"] if one["result"] != NOT_RUN
    ]
    return {
        "outcomes": dict(Counter(claim["outcome"] for claim in claims)),
        "coverage": _share(sum(bool(claim["checks"]) for claim in testable), len(testable)),
        "conformance": _share(len(conform), len(answered)),
        "mutation": _share(ran.count(KILLED), len(ran)) if mutated else None,
    }


def with_killings(report: Report, killings: Sequence[Killing]) -> dict[str, Any]:
    """A report with what became of mutants; what it said of other mutants stays."""
    ran = {one.mutant for one in killings}
    claims = [
        {
            **claim,
            "mutants": [
                *(one for one in claim["mutants"] if one["mutant"] not in ran),
                *(_killing(one) for one in killings if one.claim == claim["id"]),
            ],
        }
        for claim in report["claims"]
    ]
    return {**report, "claims": claims, "summary": summary(claims, mutated=True)}


def _share(count: int, of: int) -> dict[str, Any]:
    percent = 100.0 * count / of if of else 0.0
    return {"count": count, "of": of, "percent": int(percent * 10) / 10}  # 100 means all


def _claim(found: Found, claim: Claim) -> dict[str, Any]:
    outcome = found.outcome(claim)
    killings = [one for one in found.killings or () if one.claim == claim.id]
    return {
        "id": claim.id,
        "document": claim.document,
        "anchor": claim.anchor,
        "statement": claim.statement,
        "kind": claim.kind,
        "level": claim.level,
        "needs": needs(claim.needs),
        "outcome": outcome.name,
        "reason": outcome.reason,
        "findings": list(outcome.findings),
        "deviation": _deviation(found.expected(claim)),
        "checks": [_check(found, result) for result in found.results_of(claim.id)],
        "mutants": [_killing(one) for one in killings],
        "reproduce": reproduce(claim.id, found.wish.subject),
    }


def needs(wanted: Needs) -> dict[str, Any]:
    """What a claim needs beyond one worker with one replica."""
    plain = asdict(Needs())
    return {name: value for name, value in asdict(wanted).items() if value != plain[name]}


def reproduce(claim: str, subject: str) -> str:
    """The one command that checks a claim again."""
    more = "" if subject == STOCK else f" --subject {subject}"
    return f"tfdist conformance run --claim {claim}{more}"


def _deviation(deviation: Deviation | None) -> dict[str, Any] | None:
    if deviation is None:
        return None
    return {name: value for name, value in asdict(deviation).items() if name != "match"}


def _check(found: Found, result: Result) -> dict[str, Any]:
    check = found.log.checks[result.check]
    return {
        "check": check.check,
        "path": check.path,
        "line": check.line,
        "source": check.source,
        "kind": result.kind,
        "text": result.text,
        "ranks": [asdict(rank) for rank in result.ranks],
        "ranks_differ": result.ranks_differ,
        "tries": [again.kind for again in found.tries if again.check == check.check],
    }


def _killing(one: Killing) -> dict[str, Any]:
    told = {name: value for name, value in asdict(one).items() if name != "claim"}
    return {**told, "also": list(one.also)}


def dumped(report: Report) -> str:
    """The text of a report."""
    return json.dumps(report, sort_keys=True, indent=1, ensure_ascii=False) + "\n"


def write(folder: Path, report: Report, name: str = NAME) -> Path:
    """Write a report, whole or not at all.

    Args:
        folder: Where to.
        report: The report.
        name: The file's name there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path, partial = folder / name, folder / f".{name}.partial"
    partial.write_text(dumped(report), encoding="utf-8")
    os.replace(partial, path)
    return path


def read(where: str | Path) -> Report:
    """Read a report.

    Args:
        where: The file, or the folder that it is in.

    Raises:
        UsageError: There is none, or it is cut off, incomplete or not a report.
    """
    path = Path(where) / NAME if Path(where).is_dir() else Path(where)
    try:
        report: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}",
            hint="name a folder that tfdist conformance run --report has written",
        ) from error
    except ValueError as error:
        raise _refused(path, f"it is not whole JSON ({error})") from error
    if isinstance(report, dict) and report.get("complete") is False:
        raise _refused(path, f"its run is incomplete: {report.get('trouble', '')}")
    if wrong := violations(report):
        raise _refused(path, wrong[0])
    told: Report = report
    return told


def _refused(path: Path, why: str) -> UsageError:
    return UsageError(f"{path} is refused: {why}", hint="run the suite again to its end")
