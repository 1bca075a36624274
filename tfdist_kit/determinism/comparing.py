"""The first place where two runs differ, bit by bit.

rows of both, by (loop, step, phase) -> the first with another digest, on whatever rank
    -> of inputs: another order, or other values? -> Divergence
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tfdist_kit._errors import UsageError
from tfdist_kit.determinism import causes
from tfdist_kit.determinism.causes import Kind
from tfdist_kit.determinism.explaining import explain
from tfdist_kit.determinism.trace import PHASES, Row, Run, Trace

SHOWN = 8
_KINDS: Mapping[str, Kind] = {
    "init": "init",
    "loss": "forward",
    "grad": "gradient",
    "reduced": "reduction",
    "weight": "update",
}
Place = tuple[int, int, int, int]
_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class Divergence:
    """Where two runs part.

    Attributes:
        kind: What part of a step it is.
        loop: Which training loop of the program, counted from 0.
        step: Which step of it, counted from 0; -1 before the first.
        tensors: The names of those that differ there.
        total: How many tensors there are there.
        ranks: The ranks on which they do.
        cause: The likely cause.
        cure: What to do about it.
        names: How the two runs are called.
    """

    kind: Kind
    loop: int
    step: int
    tensors: tuple[str, ...]
    total: int
    ranks: tuple[int, ...]
    cause: str
    cure: str
    names: tuple[str, str] = ("the first run", "the second")

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)

    def __str__(self) -> str:
        shown = ", ".join(self.tensors[:SHOWN])
        more = f" and {len(self.tensors) - SHOWN} more" if len(self.tensors) > SHOWN else ""
        tensors = f"  tensors: {shown}{more} ({len(self.tensors)} of {self.total})"
        ranks = f"  ranks: {', '.join(map(str, self.ranks))}"
        lines = [f"{self.names[0]} and {self.names[1]} part {self.where}"]
        lines += [tensors] if self.tensors else []
        return "\n".join([*lines, ranks, f"  cause: {self.cause}", f"  do: {self.cure}"])

    @property
    def where(self) -> str:
        """Such as ``at step 3: gradient``."""
        loop = f" of loop {self.loop}" if self.loop else ""
        at = f"at step {self.step}{loop}" if self.step >= 0 else f"before the first step{loop}"
        return f"{at}: {self.kind}"


def compare(first: Run, second: Run) -> Divergence | None:
    """The first place where two runs differ; None if their bits are the same.

    Rows that only one of them has are not compared, except that one may have more steps.

    Raises:
        UsageError: They have no rank in common, or digests of different kinds.
    """
    ranks = sorted(first.traces.keys() & second.traces.keys())
    if not ranks:
        raise UsageError("the runs have no rank in common", hint="give two runs of one program")
    pairs = {rank: (first.traces[rank], second.traces[rank]) for rank in ranks}
    rows = {rank: (one.by_place(), other.by_place()) for rank, (one, other) in pairs.items()}
    found = [(place, rank) for rank, (one, other) in rows.items() if (place := _first(one, other))]
    names = first.name, second.name
    if not found:
        return _other_length(pairs, names)
    first_place = min(found)[0][:3]
    there = [(rank, place) for place, rank in found if place[:3] == first_place]
    told = [(rows[rank][0][each], rows[rank][1][each]) for rank, each in there]
    kind = _kind(told, [rows[rank] for rank, _ in there])
    unlike_keys = tuple(dict.fromkeys(each.key for each in explain(first, second)))
    return _divergence(kind, there, told, pairs, names, unlike_keys)


def _first(one: Mapping[Place, Row], other: Mapping[Place, Row]) -> Place | None:
    for place in sorted(one.keys() & other.keys()):
        a, b = one[place], other[place]
        if a.method != b.method:
            raise UsageError(
                f"the digests are of different kinds: {a.method} and {b.method}",
                hint="one of the runs was compiled by XLA, or has a GPU: compare with --rtol",
            )
        if a.digests != b.digests:
            return place
    return None


def unlike(one: Row, other: Row) -> list[str]:
    """The tensors that differ between two rows, by the names of the first.

    Keras numbers the layers of a process, so tensors are held against each other by their places;
    where their numbers differ, by their names, and what only one row has is among them.
    """
    if len(one.names) == len(other.names):
        pairs = zip(one.names, one.digests, other.digests, strict=True)
        return [name for name, a, b in pairs if a != b]
    here = dict(zip(one.names, one.digests, strict=True))
    there = dict(zip(other.names, other.digests, strict=True))
    return [name for name in {**here, **there} if here.get(name) != there.get(name)]


def _kind(
    told: Sequence[tuple[Row, Row]],
    rows: Sequence[tuple[Mapping[Place, Row], Mapping[Place, Row]]],
) -> Kind:
    phase = told[0][0].phase
    if phase != "input":
        return _KINDS[phase]
    return (
        "input order"
        if all(_same_in_the_end(pair[0], *tables) for pair, tables in zip(told, rows, strict=True))
        else "input values"
    )


def _same_in_the_end(start: Row, one: Mapping[Place, Row], other: Mapping[Place, Row]) -> bool:
    """Whether from a step on both have seen the same rows, by some later step."""
    sums: list[list[int]] = [[], []]
    for place in sorted(one.keys() & other.keys()):
        if place[0] == start.loop and place[1] >= start.step and place[2] == PHASES.index("input"):
            for total, row in zip(sums, (one[place], other[place]), strict=True):
                _add(total, row)
            if sums[0] == sums[1]:
                return True
    return False


def _add(total: list[int], row: Row) -> None:
    numbers = [int(each, 16) for each in row.sets]
    total[:] = [(a + b) & _MASK for a, b in zip(total or [0] * len(numbers), numbers, strict=False)]


def _divergence(
    kind: Kind,
    there: Sequence[tuple[int, Place]],
    told: Sequence[tuple[Row, Row]],
    pairs: Mapping[int, tuple[Trace, Trace]],
    names: tuple[str, str],
    unlike_keys: tuple[str, ...],
) -> Divergence:
    tensors = dict.fromkeys(name for one, other in told for name in unlike(one, other))
    row = told[0][0]
    ranks = tuple(dict.fromkeys(rank for rank, _ in there))
    first, second = pairs[ranks[0]]
    has_init = any(each.phase == "init" and each.loop == row.loop for each in first.rows)
    drawn = tuple(_other_draws(first, second))
    cause, cure = causes.advice(
        kind, has_init=has_init, step=row.step, drawn=drawn, unlike=unlike_keys
    )
    total = max(len(row.names), len(told[0][1].names))
    return Divergence(kind, row.loop, row.step, tuple(tensors), total, ranks, cause, cure, names)


def _other_draws(first: Trace, second: Trace) -> Iterator[str]:
    one, other = first.manifest.get("drawn", {}), second.manifest.get("drawn", {})
    titles = {"python": "Python", "numpy": "NumPy"}
    yield from (titles[name] for name in titles if one.get(name) != other.get(name))


def _other_length(
    pairs: Mapping[int, tuple[Trace, Trace]], names: tuple[str, str]
) -> Divergence | None:
    for rank, (one, other) in pairs.items():
        steps = [{row.place[:2] for row in trace.rows if row.step >= 0} for trace in (one, other)]
        if len(steps[0]) != len(steps[1]):
            loop, step = min(steps[0] ^ steps[1])
            cause, cure = causes.CAUSES["length"]
            return Divergence("length", loop, step, (), 0, (rank,), cause, cure, names)
    return None
