"""Runs that are not expected to have the same bits: how far apart are they, and since when?

    samples of both, by (step, phase) -> the largest relative distance of a tensor
        -> growth, a curve for each phase -> the first step beyond the tolerance

A digest tells only that something differs. The trace also has a few elements of each tensor, at
fixed places, and distances are of these: a difference elsewhere in a tensor is not seen here. Where
the runs have another number of processes, each process has another share of the batch, and only
start values and weights can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tfdist_kit._errors import UsageError
from tfdist_kit.determinism.trace import PHASES, Row, Run

_SHARED_BY_ANY_SIZE = ("init", "weight")
_TINY = 1e-30


@dataclass(frozen=True)
class Tolerance:
    """How far apart two tensors may be.

    Attributes:
        relative: Of the largest sampled element of the tensor.
        absolute: Below which a distance counts for nothing.
    """

    relative: float = 1e-5
    absolute: float = 1e-8

    def __post_init__(self) -> None:
        for name in ("relative", "absolute"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise UsageError(
                    f"the {name} tolerance is {value}", hint="give a number that is not negative"
                )


@dataclass(frozen=True)
class Beyond:
    """A tensor, and how far it is apart: in a `Growth`, the first beyond the tolerance."""

    loop: int
    step: int
    phase: str
    tensor: str
    rank: int
    distance: float

    def __str__(self) -> str:
        at = f"step {self.step}" if self.step >= 0 else "the start"
        return (
            f"beyond the tolerance at {at}: {self.phase} of {self.tensor} on rank {self.rank}, "
            f"by {self.distance:.3g} of its size"
        )


@dataclass(frozen=True)
class Growth:
    """How the distance of two runs grows.

    Attributes:
        curves: For each phase, its (step, distance) in the order of the run; distances are
            relative, of that tensor which is furthest apart.
        beyond: The first that the tolerance does not allow.
        tolerance: It.
        names: How the two runs are called.
    """

    curves: Mapping[str, tuple[tuple[int, float], ...]]
    beyond: Beyond | None
    tolerance: Tolerance
    names: tuple[str, str] = field(default=("the first run", "the second"))

    def __str__(self) -> str:
        head = f"{self.names[0]} and {self.names[1]}: "
        head += (
            str(self.beyond)
            if self.beyond
            else (f"within {self.tolerance.relative:g} of each other at every sampled place")
        )
        return "\n".join([head, *self._curves_as_text()])

    def _curves_as_text(self) -> Iterator[str]:
        for phase, curve in self.curves.items():
            step, largest = max(curve, key=lambda point: point[1])
            yield f"  {phase}: {curve[0][1]:.3g} at first, {largest:.3g} at most (step {step})"


def compare_arms(first: Run, second: Run, tolerance: Tolerance | None = None) -> Growth:
    """How far two runs are apart, step by step.

    Args:
        first: The one.
        second: The other.
        tolerance: What is still the same.

    Raises:
        UsageError: They have no rank, or no tensor, in common.
    """
    tolerance = tolerance or Tolerance()
    curves: dict[str, dict[tuple[int, int], float]] = {}
    beyond: list[tuple[tuple[int, int, int], Beyond]] = []
    for row, found, gap in _distances(first, second):
        steps = curves.setdefault(row.phase, {})
        step = row.loop, row.step
        steps[step] = max(steps.get(step, 0.0), found.distance)
        if found.distance > tolerance.relative and gap > tolerance.absolute:
            beyond.append((row.place, found))
    if not curves:
        raise UsageError(
            "the runs have no tensor in common", hint="give two runs that train the same model"
        )
    return Growth(
        {
            phase: tuple((step, each) for (_, step), each in sorted(curves[phase].items()))
            for phase in PHASES
            if phase in curves
        },
        min(beyond, key=lambda each: each[0])[1] if beyond else None,
        tolerance,
        (first.name, second.name),
    )


def _distances(first: Run, second: Run) -> Iterator[tuple[Row, Beyond, float]]:
    """Each tensor that both runs have: its row, how far it is apart, and the gap itself."""
    same_size = first.traces.keys() == second.traces.keys()
    phases = PHASES if same_size else _SHARED_BY_ANY_SIZE
    for rank in sorted(first.traces.keys() & second.traces.keys()):
        one, other = first.traces[rank].by_place(), second.traces[rank].by_place()
        for place in sorted(one.keys() & other.keys()):
            row = one[place]
            for name, gap, size in _gaps(row, other[place]) if row.phase in phases else ():
                distance = gap / max(size, _TINY)
                yield row, Beyond(row.loop, row.step, row.phase, name, rank, distance), gap


def _gaps(one: Row, other: Row) -> Iterator[tuple[str, float, float]]:
    """For each tensor that both have: its name, the largest gap, the largest element."""
    if len(one.names) == len(other.names):
        there = dict(zip(one.names, other.samples, strict=True))
    else:
        there = dict(zip(other.names, other.samples, strict=True))
    for name, values in zip(one.names, one.samples, strict=True):
        if name in there:
            pairs = list(zip(values, there[name], strict=True))
            sizes = [abs(x) for pair in pairs for x in pair if math.isfinite(x)]
            yield name, max(_gap(a, b) for a, b in pairs), max(sizes, default=0.0)


def _gap(a: float, b: float) -> float:
    if a == b or (math.isnan(a) and math.isnan(b)):
        return 0.0
    gap = abs(a - b)
    return math.inf if math.isnan(gap) else gap
