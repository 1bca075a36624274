"""What is wanted of a run, and what it has found.

Wish -> the claims that it is about -> Found, which grows while it runs
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tfdist_kit._errors import UsageError
from tfdist_kit.conformance.binding import Check
from tfdist_kit.conformance.claims import Claim, Deviation, Register
from tfdist_kit.conformance.evidence import Result
from tfdist_kit.conformance.killing import Killing
from tfdist_kit.conformance.outcomes import INCONCLUSIVE, Outcome, expected, outcome_of
from tfdist_kit.conformance.plan import Plan
from tfdist_kit.conformance.sessions import Log
from tfdist_kit.conformance.subjects import STOCK
from tfdist_kit.conformance.suites import Suite
from tfdist_kit.conformance.surroundings import Surroundings

PROFILES: Mapping[str, tuple[str, ...]] = {
    "core": ("core",),
    "extended": ("core", "extended"),
    "all": ("core", "extended", "informative"),
}


class Progress(Protocol):
    """Is told how a run goes on."""

    def begin(self, what: str, total: int) -> None:
        """A part of the run begins, with so many steps."""

    def step(self, outcome: str, name: str) -> None:
        """A claim or a mutant has come to an outcome."""


@dataclass(frozen=True)
class Wish:
    """What to run.

    Attributes:
        documents: Of which documents; none means all.
        profile: Up to which level, a name of `PROFILES`.
        claims: Just these, if any.
        quick: Only core claims, and the smallest check of each.
        subject: What is checked.
        processes: How many processes of pytest work at once.
        mutants: Whether the mutants are run, too.
    """

    documents: tuple[str, ...] = ()
    profile: str = "all"
    claims: tuple[str, ...] = ()
    quick: bool = False
    subject: str = STOCK
    processes: int = 1
    mutants: bool = False

    def chosen(self, register: Register) -> tuple[Claim, ...]:
        """The claims that it is about, in the order of the register.

        Raises:
            UsageError: One of them, or a document, is not there; or nothing is left.
        """
        found = [register.claim(name) for name in self.claims] or list(register)
        for document in self.documents:
            register.of_document(document)
        levels = PROFILES["core" if self.quick else self.profile]
        ids = {
            claim.id
            for claim in found
            if (not self.documents or claim.document in self.documents)
            and (claim.level in levels or self.claims)
        }
        if not ids:
            raise UsageError("no claim is left to check", hint="tfdist conformance list")
        return tuple(claim for claim in register if claim.id in ids)

    @property
    def arguments(self) -> tuple[str, ...]:
        """For pytest."""
        return ("-n", str(self.processes)) if self.processes > 1 else ()


@dataclass
class Found:
    """What a run has found.

    Attributes:
        wish: What was wanted.
        around: What it was made with.
        claims: The claims that it is about.
        log: The checks, and what they have shown.
        tries: What those have shown that were run again.
        killings: What became of the mutants; None if they were not run.
        complete: Whether it came to its end.
        trouble: Why not.
    """

    wish: Wish
    around: Surroundings
    claims: tuple[Claim, ...]
    log: Log = field(default_factory=Log)
    tries: list[Result] = field(default_factory=list)
    killings: list[Killing] | None = None
    complete: bool = False
    trouble: str = ""

    def checks_of(self, claim: str) -> list[Check]:
        """The checks of a claim that were run, in the order of their ids."""
        found = [check for check in self.log.checks.values() if claim in check.claims]
        ran = [check for check in found if (check.check, "") in self.log.results]
        return sorted(ran, key=lambda check: check.check)

    def results_of(self, claim: str) -> list[Result]:
        """What they have shown."""
        return [self.log.results[check.check, ""] for check in self.checks_of(claim)]

    def outcome(self, claim: Claim) -> Outcome:
        """The outcome of a claim, by what is known so far."""
        if not claim.untestable and not any(
            claim.id in check.claims for check in self.log.checks.values()
        ):
            return Outcome(INCONCLUSIVE, "no check is bound to it")
        return outcome_of(claim, self.results_of(claim.id), self.expected(claim), self.tries)

    def expected(self, claim: Claim) -> Deviation | None:
        """What a claim is known to show instead; None if it should conform."""
        return expected(claim, self.around.tensorflow, self.wish.subject)


def plan_for(suite: Suite, found: Found) -> Plan:
    """The plan for all checks of the claims that a run is about."""
    ids = [claim.id for claim in found.claims]
    quick = (
        []
        if not found.wish.quick
        else [claim.id for claim in found.claims if found.expected(claim) is None]
    )  # one that deviates may do so on a larger cluster only
    return Plan(str(suite.folder), "", found.wish.subject, ids, quick=quick)
