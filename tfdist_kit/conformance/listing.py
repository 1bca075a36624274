"""What the register, the checks and the mutants say of each claim, without running anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tfdist_kit.conformance.binding import Check
from tfdist_kit.conformance.claims import Claim
from tfdist_kit.conformance.marks import Mutant
from tfdist_kit.conformance.outcomes import expected
from tfdist_kit.conformance.report.canonical import needs, reproduce
from tfdist_kit.conformance.sessions import collect
from tfdist_kit.conformance.suites import Suite
from tfdist_kit.conformance.surroundings import Surroundings, surroundings

_WITH_MUTANTS = ("core", "extended")


@dataclass(frozen=True)
class Entry:
    """A claim, and what belongs to it.

    Attributes:
        claim: The claim.
        checks: Its checks.
        mutants: Its mutants.
        conforms: Whether it should conform on this TensorFlow.
    """

    claim: Claim
    checks: tuple[Check, ...]
    mutants: tuple[Mutant, ...]
    conforms: bool

    @property
    def lacks(self) -> str:
        """What it lacks; empty if nothing."""
        if self.claim.untestable:
            return ""
        if not self.checks:
            return "no check"
        wanted = self.claim.level in _WITH_MUTANTS and self.conforms
        return "no mutant" if wanted and not self.mutants else ""


def entries(suite: Suite, document: str | None = None, level: str | None = None) -> list[Entry]:
    """The claims of a suite.

    Raises:
        UsageError: There is no such document or level, or the checks cannot be read.
    """
    register = suite.register()
    claims = register.of_document(document) if document else tuple(register)
    if level:
        claims = tuple(claim for claim in register.of_level(level) if claim in claims)
    log, mutants, around = collect(suite), suite.mutants(), surroundings()
    return [
        Entry(
            claim,
            tuple(check for check in log.checks.values() if claim.id in check.claims),
            tuple(one for one in mutants if one.claim == claim.id),
            _conforms(claim, around),
        )
        for claim in claims
    ]


def _conforms(claim: Claim, around: Surroundings) -> bool:
    return expected(claim, around.tensorflow, around.subject_for(claim.needs)) is None


def lines(found: Sequence[Entry]) -> Iterator[str]:
    """A line for each claim, and how many there are."""
    width = max((len(entry.claim.id) for entry in found), default=0)
    for entry in found:
        claim, count = entry.claim, len(entry.checks)
        checks = "1 check" if count == 1 else f"{count} checks"
        told = "untestable" if claim.untestable else entry.lacks or checks
        yield f"{claim.id:{width}}  {claim.level:11}  {told:10}  {claim.statement}"
    yield f"claims: {len(found)}"


def explained(suite: Suite, name: str) -> Iterator[str]:
    """All that is known of a claim.

    Raises:
        UsageError: There is no such claim.
    """
    claim = suite.register().claim(name)
    [entry] = [each for each in entries(suite) if each.claim.id == claim.id]
    yield claim.id
    yield f"  {claim.statement}"
    yield f"document:  {claim.document}, under {claim.anchor}"
    yield f"kind:      {claim.kind}, {claim.level}"
    wanted = ", ".join(f"{key}={value}" for key, value in needs(claim.needs).items())
    yield f"needs:     {wanted or 'one worker'}"
    if claim.untestable:
        yield f"untestable: {claim.untestable}"
        return
    yield from _deviations(claim)
    for check in _by_place(entry.checks):
        yield f"check:     {suite.folder / check.path}:{check.line} {check.check}"
    for one in entry.mutants:
        yield f"mutant:    {one.name} ({one.place})"
    if entry.lacks:
        yield f"lacks:     {entry.lacks}"
    subject = surroundings().subject_for(claim.needs)
    suffix = "" if suite.is_own else f" --suite {suite.folder}"
    yield f"run it:    {reproduce(claim.id, subject)}{suffix}"


def _deviations(claim: Claim) -> Iterator[str]:
    for one in claim.deviations:
        cured = "; the kit's adapter cures it" if one.cured_by_adapter else ""
        yield f"{one.verdict}: TensorFlow {one.tensorflow}: {one.seen}{cured}"
        if one.link:
            yield f"  {one.link}"


def _by_place(checks: Sequence[Check]) -> Sequence[Check]:
    """One of those that are the same function with other parameters."""
    return list({(check.path, check.line): check for check in checks}.values())
