"""What a session of pytest says of the claims in its last lines.

results -> claims whose checks have all run -> outcomes, and what no longer deviates
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from tfdist_kit.conformance.claims import Claim, Deviation
from tfdist_kit.conformance.evidence import Result
from tfdist_kit.conformance.outcomes import OUTCOMES, Outcome, outcome_of

Expected = Callable[[str], Deviation | None]


class SummingUp:
    """Of one session.

    Args:
        claims: The register, by id; not looked at before there is a result.
    """

    def __init__(self, claims: Callable[[], Mapping[str, Claim]]) -> None:
        self._claims = claims
        self._results: dict[str, dict[str, Result]] = {}
        self._counts: dict[str, int] = {}

    def add(self, result: Result, counts: Mapping[str, int]) -> None:
        """Note what a check has shown.

        Args:
            result: What it has shown; a later one of the same check replaces an earlier one.
            counts: For each claim of the check, how many checks it has.
        """
        if not result.mutant:
            self._counts.update(counts)
            for claim in counts:
                self._results.setdefault(claim, {})[result.check] = result

    def outcomes(self, expected: Expected) -> Iterator[tuple[str, Outcome]]:
        """The outcomes of the claims all of whose checks have run."""
        for name, results in self._results.items():
            if len(results) == self._counts[name]:
                claim = self._claims()[name]
                yield name, outcome_of(claim, list(results.values()), expected(name))

    def no_longer(self, expected: Expected) -> list[str]:
        """Claims that the register says deviate, and that do not."""
        return [
            f"{name}: {outcome.reason}"
            for name, outcome in self.outcomes(expected)
            if outcome.reason.startswith("it no longer deviates")
        ]

    def lines(self, expected: Expected) -> Iterator[str]:
        """How many claims came to each outcome."""
        found = Counter(outcome.name for _, outcome in self.outcomes(expected))
        if found:
            told = (f"{found[name]} {name}" for name in OUTCOMES if found[name])
            yield f"claims: {', '.join(told)}"
