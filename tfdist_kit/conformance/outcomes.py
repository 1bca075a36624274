"""The outcome of a claim: what its checks have shown, held against what is known of TensorFlow.

results of all checks, the deviation that applies, further tries -> Outcome

Nothing turns a bad outcome into a good one: a check that fails once and then holds is flaky.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tfdist_kit.conformance.claims import Claim, Deviation
from tfdist_kit.conformance.evidence import Result
from tfdist_kit.conformance.subjects import ADAPTER

CONFORMS = "conforms"
DEVIATES = "deviates"
KNOWN = "known deviation"
DEFECT = "document defect"
NOT_APPLICABLE = "not applicable"
INCONCLUSIVE = "inconclusive"
TIMED_OUT = "timed out"
FLAKY = "flaky"
UNTESTABLE = "untestable"
OUTCOMES = (
    CONFORMS,
    KNOWN,
    DEFECT,
    DEVIATES,
    TIMED_OUT,
    FLAKY,
    INCONCLUSIVE,
    NOT_APPLICABLE,
    UNTESTABLE,
)
BAD = frozenset({DEVIATES, TIMED_OUT, FLAKY})
"""Outcomes for which a run ends with exit code 1."""
ANSWERED = frozenset({CONFORMS, DEVIATES, KNOWN, DEFECT, TIMED_OUT, FLAKY})
"""Outcomes that say something of TensorFlow."""


@dataclass(frozen=True)
class Outcome:
    """What a run says of a claim.

    Attributes:
        name: One of `OUTCOMES`.
        reason: Why, in a line or a few; empty where the name says it all.
        findings: What else was seen, such as ranks that differ.
    """

    name: str
    reason: str = ""
    findings: tuple[str, ...] = ()


def expected(claim: Claim, tensorflow: str, subject: str) -> Deviation | None:
    """The deviation that a claim is expected to show; None if it should conform."""
    found = claim.deviation_for(tensorflow) if tensorflow else None
    cured = found is not None and found.cured_by_adapter and subject == ADAPTER
    return None if cured else found


def outcome_of(
    claim: Claim,
    results: Sequence[Result],
    deviation: Deviation | None = None,
    tries: Sequence[Result] = (),
) -> Outcome:
    """The outcome of a claim.

    Args:
        claim: The claim.
        results: What its checks have shown.
        deviation: What is known that TensorFlow does instead.
        tries: What checks have shown that were run again.
    """
    if claim.untestable:
        return Outcome(UNTESTABLE, claim.untestable)
    if not results:
        return Outcome(INCONCLUSIVE, "no check of it was run")
    findings = tuple(_findings(results))
    if (unsteady := _unsteady(results, tries)) is not None:
        return Outcome(FLAKY, unsteady, findings)
    name, reason = _merged(results, deviation)
    return Outcome(name, reason, findings)


def _merged(results: Sequence[Result], deviation: Deviation | None) -> tuple[str, str]:
    red = [result for result in results if result.kind in ("failed", "timed out")]
    broken = [result for result in results if result.kind == "broken"]
    if deviation is None and red:
        return (TIMED_OUT if red[0].kind == "timed out" else DEVIATES), red[0].text
    for result in red:
        if deviation is not None and not is_known(result, deviation):
            told = f"it fails otherwise than is known ({deviation.seen}): {result.text}"
            return DEVIATES, told
    if broken:
        return INCONCLUSIVE, broken[0].text
    if red and deviation is not None:
        return deviation.verdict, deviation.seen
    skipped = [result for result in results if result.kind == "skipped"]
    if len(skipped) == len(results):
        return NOT_APPLICABLE, skipped[0].text
    if deviation is not None:
        return DEVIATES, f"it no longer deviates; the register still says: {deviation.seen}"
    return CONFORMS, ""


def is_known(result: Result, deviation: Deviation) -> bool:
    """Whether a check failed in just the way that is known."""
    texts = [result.text, *(f"{rank.kind}: {rank.text}" for rank in result.ranks if rank.text)]
    return any(re.search(deviation.match, text) for text in texts)


def _unsteady(results: Sequence[Result], tries: Sequence[Result]) -> str | None:
    """How a check that was run again has shown something else; None if none did."""
    for result in results:
        kinds = [again.kind for again in tries if again.check == result.check]
        if any(kind != result.kind for kind in kinds):
            return f"run again, {result.check} was: {', '.join([result.kind, *kinds])}"
    return None


def _findings(results: Sequence[Result]) -> list[str]:
    return [
        f"the ranks differ in {result.check}: "
        + ", ".join(f"{rank.name} {rank.kind}" for rank in result.ranks)
        for result in results
        if result.ranks_differ
    ]


def is_run_again(outcome: Outcome) -> bool:
    """Whether an outcome is bad enough to look twice."""
    return outcome.name in (DEVIATES, TIMED_OUT)


def exit_code(outcomes: Sequence[str]) -> int:
    """0 conformant, 1 if something deviates, 3 if the answer is incomplete."""
    if any(outcome in BAD for outcome in outcomes):
        return 1
    return 3 if INCONCLUSIVE in outcomes else 0
