"""What a run has found, as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfdist_kit.conformance.killing import KILLED, NOT_RUN, Killing
from tfdist_kit.conformance.outcomes import BAD, INCONCLUSIVE, OUTCOMES
from tfdist_kit.conformance.report.canonical import Report
from tfdist_kit.conformance.report.markdown import numbers


def summary(report: Report) -> Iterator[str]:
    """What needs attention, how many claims came to each outcome, and the numbers."""
    for claim in report["claims"]:
        if claim["outcome"] in BAD or claim["outcome"] == INCONCLUSIVE:
            yield f"{claim['outcome']}: {claim['id']}: {claim['statement']}"
            yield from (f"    {line}" for line in claim["reason"].splitlines())
        yield from (f"    {claim['id']}: {finding}" for finding in claim["findings"])
        for one in claim["mutants"]:
            if one["result"] != KILLED:
                yield f"{one['result']}: {one['mutant']} of {claim['id']}: {one['text']}"
    found = report["summary"]["outcomes"]
    yield ", ".join(f"{found[name]} {name}" for name in OUTCOMES if name in found)
    yield from numbers(report)


def killings(found: Sequence[Killing]) -> Iterator[str]:
    """What became of each mutant, and the score."""
    for one in found:
        why = f": {one.text.splitlines()[0]}" if one.text and one.result != KILLED else ""
        yield f"{one.result}: {one.mutant} ({one.place}) of {one.claim}{why}"
        yield from (f"    it also breaks {claim}, which it does not name" for claim in one.also)
    ran = [one for one in found if one.result != NOT_RUN]
    killed = sum(one.result == KILLED for one in ran)
    yield f"mutants killed: {killed} of {len(ran)}"
