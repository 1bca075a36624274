"""Runs the suite: which claims, in which sessions, and what was found.

Wish -> claims -> a session with warm clusters -> those that deviate again, in fresh processes
     -> mutants, if wanted -> Found -> `report.canonical`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tfdist_kit.conformance import mutation
from tfdist_kit.conformance.evidence import Result
from tfdist_kit.conformance.found import Found, Progress, Wish, plan_for
from tfdist_kit.conformance.outcomes import is_run_again
from tfdist_kit.conformance.sessions import Log, SessionBrokeError, Stop, Stopped, session
from tfdist_kit.conformance.suites import Suite
from tfdist_kit.conformance.surroundings import surroundings

TRIES = 2
"""How often a check that deviates is run again."""


def run(suite: Suite, wish: Wish, progress: Progress, stop: Stop | None = None) -> Found:
    """Run the suite.

    Raises:
        UsageError: It cannot be done as asked.
    """
    register = suite.register()
    found = Found(wish, surroundings(), wish.chosen(register))
    stop = stop or Stop()
    try:
        _first(suite, found, progress, stop)
        _again(suite, found, progress, stop)
        if wish.mutants:
            found.killings = mutation.run(suite, found, progress, stop)
        found.complete = True
    except Stopped:
        found.trouble = "it was stopped"
    except SessionBrokeError as error:
        found.trouble = str(error)
    return found


def _first(suite: Suite, found: Found, progress: Progress, stop: Stop) -> None:
    """Run every check once, on warm clusters."""
    told: set[str] = set()
    progress.begin("checks", sum(not claim.untestable for claim in found.claims))

    def tell(log: Log, result: Result) -> None:
        found.log = log
        for claim in found.claims:
            if claim.id not in told and _is_done(log, claim.id, result, wish=found.wish):
                told.add(claim.id)
                progress.step(found.outcome(claim).name, claim.id)

    plan = plan_for(suite, found)
    found.log = session(suite, plan, stop=stop, arguments=found.wish.arguments, on_result=tell)


def _is_done(log: Log, claim: str, result: Result, *, wish: Wish) -> bool:
    check = log.checks.get(result.check)
    if check is None or claim not in check.claims:
        return False
    ran = {name for name, _ in log.results}
    return wish.quick or all(c.check in ran for c in log.checks.values() if claim in c.claims)


def _again(suite: Suite, found: Found, progress: Progress, stop: Stop) -> None:
    """Run the checks of claims that deviate again, each time in fresh processes."""
    for number in range(TRIES):
        red = [claim for claim in found.claims if is_run_again(found.outcome(claim))]
        if not red:
            return
        checks = sorted({each.check for claim in red for each in found.checks_of(claim.id)})
        progress.begin(f"once more ({number + 1} of {TRIES})", len(red))
        plan = replace(plan_for(suite, found), checks=checks)
        more = ("--tfdist-fresh", *found.wish.arguments)
        found.tries += session(suite, plan, stop=stop, arguments=more).results.values()
        for claim in red:
            progress.step(found.outcome(claim).name, claim.id)


def timing(found: Found) -> Mapping[str, float]:
    """How long each check took, in seconds."""
    results: Sequence[Result] = list(found.log.results.values())
    return {result.check: result.seconds for result in results if not result.mutant}
