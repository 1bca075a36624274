"""Do the workers of one run agree, where they must: start values, summed gradients, weights?

Nothing in TensorFlow looks. Workers that drift apart still repeat bit by bit in every run, so that
a comparison of runs finds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tfdist_kit.determinism.comparing import SHOWN, unlike
from tfdist_kit.determinism.trace import Row, Run

_ALIKE = ("init", "reduced", "weight")


@dataclass(frozen=True)
class Drift:
    """The first place where the workers of a run do not agree.

    Attributes:
        run: The run's name.
        phase: Of `tfdist_kit.determinism.trace.PHASES`.
        step: Which step, counted from 0; -1 before the first.
        tensors: The names of those that differ.
        ranks: The ranks that differ from the first one.
    """

    run: str
    phase: str
    step: int
    tensors: tuple[str, ...]
    ranks: tuple[int, ...]

    def __str__(self) -> str:
        shown = ", ".join(self.tensors[:SHOWN])
        at = f"from step {self.step} on" if self.step >= 0 else "from the start"
        return (
            f"in {self.run} the workers do not agree {at}: rank {', '.join(map(str, self.ranks))} "
            f"differs in {self.phase}: {shown}"
        )


def drift(run: Run) -> Drift | None:
    """The first place where the workers of a run of one cluster disagree; None if they never do."""
    if len(run.traces) < 2 or not _is_a_cluster(run):
        return None
    tables = {rank: trace.by_place() for rank, trace in run.traces.items()}
    first, *others = tables
    for place in sorted(set.intersection(*(set(table) for table in tables.values()))):
        row = tables[first][place]
        if row.phase in _ALIKE:
            pairs = [(rank, tables[rank][place]) for rank in others]
            apart = dict(_apart(row, pairs))
            if apart:
                names = dict.fromkeys(name for each in apart.values() for name in each)
                return Drift(run.name, row.phase, row.step, tuple(names), tuple(apart))
    return None


def _apart(row: Row, others: list[tuple[int, Row]]) -> Iterator[tuple[int, list[str]]]:
    for rank, other in others:
        names = unlike(row, other)
        if names:
            yield rank, names


def _is_a_cluster(run: Run) -> bool:
    """Whether its processes train together, as far as their traces tell: gradients are reduced."""
    return all(any(row.phase == "reduced" for row in trace.rows) for trace in run.traces.values())
