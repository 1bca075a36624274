"""Runs checks under mutants: each has to fail under those of its claims.

mutants of the claims -> by the subject that can show the claim -> a session for each, every mutant
in processes of its own -> Killing

A mutant is killed if a check of its claim that holds without it fails with it. What is not there
for TensorFlow's own classes but is for the kit's adapters is looked at through these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tfdist_kit._errors import UsageError
from tfdist_kit.conformance.binding import mutant_problems
from tfdist_kit.conformance.evidence import Result
from tfdist_kit.conformance.found import Found, Progress, Wish, plan_for
from tfdist_kit.conformance.killing import KILLED, NOT_RUN, SURVIVED, Killing
from tfdist_kit.conformance.marks import Mutant
from tfdist_kit.conformance.plan import Plan
from tfdist_kit.conformance.sessions import Log, SessionBrokeError, Stop, Stopped, session
from tfdist_kit.conformance.suites import Suite
from tfdist_kit.conformance.surroundings import surroundings


def mutants_of(suite: Suite, found: Found) -> list[Mutant]:
    """The mutants of the claims that a run is about.

    Raises:
        UsageError: One is of a claim that is not in the register.
    """
    if wrong := mutant_problems(suite, [claim.id for claim in suite.register()]):
        raise UsageError("\n  ".join(wrong), hint="name a claim of the register")
    ids = {claim.id for claim in found.claims}
    return [one for one in suite.mutants() if one.claim in ids]


def run(
    suite: Suite, found: Found, progress: Progress, stop: Stop, *, everything: bool = False
) -> list[Killing]:
    """Run the mutants.

    Args:
        suite: The suite.
        found: The run that this belongs to.
        progress: Is told of each mutant.
        stop: Looked at all the time.
        everything: Whether every check runs under every mutant, to find claims that break although
            no mutant names them; the time that takes grows with the square of the suite.
    """
    mutants = mutants_of(suite, found)
    progress.begin("mutants", len(mutants))
    killed: dict[str, Killing] = {}
    for subject, ids in _by_subject(found).items():
        ours = [one for one in mutants if one.claim in ids]
        plan = replace(_plan(plan_for(suite, found), ours, ids, everything), subject=subject)
        arguments = found.wish.arguments
        if ours:
            log = session(
                suite, plan, stop=stop, arguments=arguments, on_result=_tell(ours, progress)
            )
            killed |= {one.name: killing(log, one) for one in ours}
    return [killed[one.name] for one in mutants]


def _by_subject(found: Found) -> Mapping[str, Sequence[str]]:
    """The ids of the claims, by the subject that can show them."""
    ids: dict[str, list[str]] = {}
    for claim in found.claims:
        subject = found.around.subject_for(claim.needs, found.wish.subject)
        ids.setdefault(subject, []).append(claim.id)
    return ids


def _plan(plan: Plan, mutants: Sequence[Mutant], ids: Sequence[str], everything: bool) -> Plan:
    pairs = [(one.name, ids if everything else [one.claim]) for one in mutants]
    claims = ids if everything else sorted({one.claim for one in mutants})
    return replace(plan, mutants=pairs, claims=claims, quick=())


def _tell(mutants: Sequence[Mutant], progress: Progress) -> Callable[[Log, Result], None]:
    told: set[str] = set()

    def tell(log: Log, result: Result) -> None:
        for one in mutants:
            if result.mutant == one.name and one.name not in told and _is_done(log, one):
                told.add(one.name)
                progress.step(killing(log, one).result, one.name)

    return tell


def run_alone(
    suite: Suite, wish: Wish, progress: Progress, stop: Stop, *, everything: bool = False
) -> Found:
    """Run the mutants and nothing else; the arguments are those of `run`.

    Raises:
        UsageError: It cannot be done as asked.
    """
    found = Found(wish, surroundings(), wish.chosen(suite.register()))
    try:
        found.killings = run(suite, found, progress, stop, everything=everything)
        found.complete = True
    except Stopped:
        found.trouble = "it was stopped"
    except SessionBrokeError as error:
        found.trouble = str(error)
    return found


def _is_done(log: Log, one: Mutant) -> bool:
    checks = [each.check for each in log.checks.values() if one.claim in each.claims]
    return all((check, one.name) in log.results for check in checks)


def killing(log: Log, one: Mutant) -> Killing:
    """What became of a mutant, by what its claim's checks have shown without and with it."""
    pairs = _pairs(log, one, one.claim)
    also = tuple(
        sorted(
            {claim for check in log.checks.values() for claim in check.claims}
            - {one.claim, *one.also}
        )
    )
    broken = tuple(claim for claim in also if _fails(_pairs(log, one, claim)))
    made = Killing(one.name, one.claim, one.place, SURVIVED, also=broken)
    held = [after for before, after in pairs if before.kind == "held"]
    red = [after for after in held if after.kind in ("failed", "timed out")]
    if red:
        return replace(made, result=KILLED, text=red[0].text)
    if not held:
        return replace(made, result=NOT_RUN, text=_why(pairs))
    wrong = [after for after in held if after.kind != "held"]
    return replace(made, text=wrong[0].text if wrong else "every check of the claim still holds")


def _pairs(log: Log, one: Mutant, claim: str) -> list[tuple[Result, Result]]:
    """What each check of a claim has shown without and with a mutant."""
    checks = [each.check for each in log.checks.values() if claim in each.claims]
    return [
        (log.results[check, ""], log.results[check, one.name])
        for check in sorted(checks)
        if (check, "") in log.results and (check, one.name) in log.results
    ]


def _fails(pairs: Sequence[tuple[Result, Result]]) -> bool:
    return any(
        before.kind == "held" and after.kind in ("failed", "timed out") for before, after in pairs
    )


def _why(pairs: Sequence[tuple[Result, Result]]) -> str:
    if not pairs:
        return "the claim has no check"
    before, _ = pairs[0]
    return f"without the mutant the check does not hold either ({before.kind}): {before.text}"
