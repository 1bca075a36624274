"""The same variables in three states: on the replicas, in one process, and in a rehearsal.

states -> variables that belong together, by their place -> the same start -> Update, Update, ...
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tfdist_kit._errors import UsageError
from tfdist_kit.testing.checks.ranks import Ranks
from tfdist_kit.testing.checks.state import Named, named_variables
from tfdist_kit.testing.checks.updates import Update

ALONE, REHEARSED = 1, 2
Together = tuple[Named, ...]


class Comparison:
    """Variables of three states, and what a step makes of them.

    Args:
        ranks: The workers.
        states: The state in the strategy, that of the single process, and that of a rehearsal.
        chosen: Which variables of a state are compared, as a function of it; None for all.
    """

    def __init__(
        self,
        ranks: Ranks,
        states: tuple[Any, Any, Any],
        chosen: Callable[[Any], Any] | None,
    ) -> None:
        self.ranks = ranks
        self.states = states
        self._chosen = chosen or (lambda state: state)
        self._rows: list[Together] = []
        self._start: list[Any] = []

    @property
    def on_replicas(self) -> list[Named]:
        """The variables in the strategy."""
        return [row[0] for row in self._rows]

    def find(self, when: str) -> None:
        """Find all variables; those that a step has made come after those that were there."""
        self.ranks.together(f"finding the variables {when}", self._find)

    def _find(self) -> None:
        new = [self._unknown(place) for place in range(len(self.states))]
        layouts = [[_layout(named) for named in found] for found in new]
        if any(layout != layouts[0] for layout in layouts):
            numbers = " and ".join(str(len(self._rows) + len(found)) for found in new[:2])
            raise UsageError(
                f"make_state makes other variables without a strategy than in its scope: {numbers}"
                " of them, or of other shapes",
                hint="it must make the same variables, in the same order, each time",
            )
        self._rows += zip(*new, strict=True)

    def _unknown(self, place: int) -> list[Named]:
        known = {id(row[place].variable) for row in self._rows}
        found = named_variables(self._chosen(self.states[place]), strict=False)
        return [each for each in found if not each.is_on_read and id(each.variable) not in known]

    def keep_start(self) -> None:
        """The values in the strategy are now where all begin."""
        self._start = [named.copies(self.ranks.strategy)[0] for named in self.on_replicas]

    def alone(self, place: int, step: Callable[[Any], None]) -> None:
        """Do a step without a strategy, from the start."""

        def from_the_start() -> None:
            for row, value in zip(self._rows, self._start, strict=False):
                row[place].variable.assign(value)
            step(self.states[place])

        rows = "the whole batch" if place == ALONE else "one replica's rows"
        self.ranks.together(f"the step, alone on {rows},", from_the_start)

    def updates(self, place: int) -> list[Update]:
        """What became of each variable, against the state at `place`."""
        return [self._update(number, row, place) for number, row in enumerate(self._rows)]

    def _update(self, number: int, row: Together, place: int) -> Update:
        named = row[0]
        replicas = named.copies(self.ranks.strategy)[0]
        is_new = number >= len(self._start)  # optimizers start what they make late with zeros
        start = np.zeros_like(replicas) if is_new else self._start[number]
        kind = f"{named.name} ({named.variable.dtype.name}, shape {tuple(replicas.shape)})"
        alone = np.asarray(row[place].variable.numpy())
        return Update(kind, named.is_floating, is_new, start, replicas, alone)


def _layout(named: Named) -> tuple[str, tuple[int, ...]]:
    return named.variable.dtype.name, tuple(named.variable.shape)
