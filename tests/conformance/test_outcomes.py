"""From what checks have shown to the outcome of a claim."""

from __future__ import annotations

import pytest

from tfdist_kit.conformance.claims import Claim, Deviation
from tfdist_kit.conformance.evidence import Kind, Rank, Result
from tfdist_kit.conformance.outcomes import (
    OUTCOMES,
    exit_code,
    expected,
    is_run_again,
    outcome_of,
)

CLAIM = Claim("toy.top.one", "toy", "top", "One is one.", "behaviour", "core")
KNOWN = Deviation(">=2.18", "known deviation", "it is two", "got 2")
DEFECT = Deviation(">=2.18", "document defect", "it is two", "got 2")


def result(kind: Kind, text: str = "", check: str = "a", *ranks: str) -> Result:
    told = tuple(Rank(n, f"rank {n}", each) for n, each in enumerate(ranks))
    return Result(check, kind, text, told)


HELD, SKIPPED, BROKEN = result("held"), result("skipped", "no GPU", "s"), result("broken", "b", "b")
FAILED, GOT_2 = result("failed", "got 3", "f"), result("failed", "line\nassert got 2", "g")
LATE, LATE_2 = result("timed out", "timed out: in x", "t"), result("timed out", "got 2", "u")

CASES: list[tuple[list[Result], Deviation | None, str, str]] = [
    ([HELD], None, "conforms", ""),
    ([HELD, SKIPPED], None, "conforms", ""),
    ([SKIPPED], None, "not applicable", "no GPU"),
    ([SKIPPED], KNOWN, "not applicable", "no GPU"),
    ([], None, "inconclusive", "no check"),
    ([HELD, FAILED], None, "deviates", "got 3"),
    ([HELD, GOT_2], None, "deviates", "got 2"),
    ([FAILED, BROKEN], None, "deviates", "got 3"),
    ([HELD, BROKEN], None, "inconclusive", "b"),
    ([SKIPPED, BROKEN], None, "inconclusive", "b"),
    ([HELD, LATE], None, "timed out", "in x"),
    ([GOT_2], KNOWN, "known deviation", "it is two"),
    ([HELD, GOT_2], KNOWN, "known deviation", "it is two"),
    ([LATE_2], KNOWN, "known deviation", "it is two"),
    ([GOT_2], DEFECT, "document defect", "it is two"),
    ([GOT_2, FAILED], KNOWN, "deviates", "otherwise than is known"),
    ([LATE], KNOWN, "deviates", "otherwise than is known"),
    ([HELD], KNOWN, "deviates", "no longer deviates"),
    ([HELD], DEFECT, "deviates", "no longer deviates"),
    ([GOT_2, BROKEN], KNOWN, "inconclusive", "b"),
    ([HELD, BROKEN], KNOWN, "inconclusive", "b"),
]


@pytest.mark.parametrize(("results", "deviation", "name", "reason"), CASES)
def test_outcome(
    results: list[Result], deviation: Deviation | None, name: str, reason: str
) -> None:
    outcome = outcome_of(CLAIM, results, deviation)
    assert outcome.name == name
    assert reason in outcome.reason
    assert name in OUTCOMES


def test_the_known_failure_may_be_told_by_one_rank() -> None:
    ranks = (Rank(0, "rank 0", "failed", "got 3"), Rank(1, "rank 1", "failed", "got 2"))
    assert outcome_of(CLAIM, [Result("a", "failed", "got 3", ranks)], KNOWN).name == KNOWN.verdict


def test_an_untestable_claim() -> None:
    claim = Claim("a.b.c", "toy", "top", "x", "behaviour", "core", untestable="it is advice")
    assert outcome_of(claim, []).name == "untestable"
    assert outcome_of(claim, []).reason == "it is advice"


@pytest.mark.parametrize(
    ("first", "tries", "name"),
    [
        (FAILED, ["held"], "flaky"),
        (FAILED, ["failed", "held"], "flaky"),
        (FAILED, ["timed out"], "flaky"),
        (FAILED, ["broken"], "flaky"),
        (FAILED, ["failed", "failed"], "deviates"),
        (LATE, ["timed out", "timed out"], "timed out"),
        (LATE, ["held"], "flaky"),
    ],
)
def test_what_is_run_again_never_turns_green(first: Result, tries: list[Kind], name: str) -> None:
    again = [result(kind, "", first.check) for kind in tries]
    outcome = outcome_of(CLAIM, [HELD, first], None, again)
    assert outcome.name == name
    if name == "flaky":
        assert outcome.reason.endswith(", ".join([first.kind, *tries]))


def test_what_no_longer_deviates_is_run_again_and_can_be_flaky() -> None:
    assert is_run_again(outcome_of(CLAIM, [HELD], KNOWN))
    assert outcome_of(CLAIM, [HELD], KNOWN, [result("failed", "got 2", "a")]).name == "flaky"


def test_ranks_that_differ_are_a_finding() -> None:
    differing = result("failed", "x", "a", "passed", "failed")
    assert outcome_of(CLAIM, [differing]).findings == (
        "the ranks differ in a: rank 0 passed, rank 1 failed",
    )
    for ranks in (("passed", "passed"), ("failed", "aborted"), ("failed", "failed")):
        assert not outcome_of(CLAIM, [result("failed", "x", "a", *ranks)]).findings


def test_a_deviation_applies_to_versions_and_may_be_cured() -> None:
    cured = Deviation(">=2.18", "known deviation", "x", "x", cured_by_adapter=True)
    one = Claim("a.b.c", "toy", "top", "x", "behaviour", "core", deviations=(cured,))
    assert expected(one, "2.21.0", "stock") is cured
    assert expected(one, "2.21.0", "adapter") is None
    assert expected(one, "2.17.1", "stock") is None
    assert expected(one, "", "stock") is None
    kept = Claim("a.b.c", "toy", "top", "x", "behaviour", "core", deviations=(KNOWN,))
    assert expected(kept, "2.21.0", "adapter") is KNOWN


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        (["conforms", "known deviation", "document defect", "not applicable", "untestable"], 0),
        (["conforms", "deviates"], 1),
        (["flaky"], 1),
        (["timed out"], 1),
        (["conforms", "inconclusive"], 3),
        (["inconclusive", "deviates"], 1),
        ([], 0),
    ],
)
def test_exit_code(outcomes: list[str], code: int) -> None:
    assert exit_code(outcomes) == code
