"""Do all replicas hold the same values?

    variables -> copies of this worker -> one digest for all of them -> do the workers agree?
              -> only if not: each variable's digests, then the values of those that differ

Nothing but the digest is exchanged as long as all is well, whatever the size of the variables.
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

import numpy as np

from tfdist_kit._errors import UsageError
from tfdist_kit.launcher.hangs.explain import name_ranks
from tfdist_kit.testing.checks.ranks import Ranks
from tfdist_kit.testing.checks.state import Named, digest, named_variables

SHOWN = 5
COMPARED_ELEMENTS = 4_000_000


def assert_replicas_agree(variables: Any, *, strategy: Any = None) -> None:
    """Check that each variable has the same value on all replicas of all workers.

    Call it in every worker, with the variables that correspond to each other in the same order.
    Values agree if their bits do; NaN agrees with NaN. Variables that TensorFlow sums up when
    they are read (``ON_READ``: metrics, for example) differ by design and are passed over.

    Args:
        variables: A variable, a list or dict of them, a `tf.Module`, or a Keras model (with its
            optimizer, without metrics), layer or optimizer.
        strategy: The strategy; None for the one in whose scope this is called, or else for
            `tfdist_kit.multi_worker_mirrored()`.

    Raises:
        AssertionError: They do not agree; says which, by how much, on which ranks, and the usual
            cause. On all ranks, with the same message.
        UsageError: There is nothing to compare, or this is called in a graph or by a replica.
    """
    __tracebackhide__ = True
    ranks = Ranks.of(strategy)
    copies = ranks.together("reading the variables", lambda: _readable(variables, ranks))
    message = disagreement(ranks, copies)
    if message:
        raise AssertionError(message)


@dataclasses.dataclass(frozen=True)
class Copies:
    """A variable as this worker has it: what can be told to the others at little cost."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    digests: tuple[str, ...]
    is_distributed: bool
    aggregation: str

    @property
    def layout(self) -> tuple[str, tuple[int, ...]]:
        """What has to be the same for values to be comparable."""
        return self.dtype, self.shape

    @property
    def kind(self) -> str:
        """Name, dtype and shape, to be read."""
        return f"{self.name} ({self.dtype}, shape {self.shape})"


Read = list[tuple[Copies, list[Any]]]


def _readable(variables: Any, ranks: Ranks) -> Read:
    named = named_variables(variables)
    kept = [each for each in named if not each.is_on_read]
    if not kept:
        raise UsageError(
            f"{named[0].name} is read as the sum of its replicas' values (ON_READ), so they are "
            "not meant to agree",
            hint="compare what is read from it, or leave it out",
        )
    return read(ranks, kept)


def read(ranks: Ranks, variables: list[Named]) -> Read:
    """This worker's copies of the variables, with their values."""
    result = []
    for named in variables:
        values = named.copies(ranks.strategy)
        copies = Copies(
            named.name,
            named.variable.dtype.name,
            tuple(values[0].shape),
            tuple(digest(value) for value in values),
            named.is_distributed,
            getattr(getattr(named.variable, "aggregation", None), "name", ""),
        )
        result.append((copies, values))
    return result


def disagreement(ranks: Ranks, copies: Read) -> str | None:
    """What differs between replicas, with its usual cause; None if nothing does. A collective."""
    facts = [each for each, _ in copies]
    content = repr([(each.layout, each.digests[0]) for each in facts])
    alike = all(len(set(each.digests)) == 1 for each in facts)
    told = ranks.exchange((hashlib.sha256(content.encode()).digest(), alike))
    if alike and set(told) == {told[0]}:
        return None
    everywhere = ranks.exchange(facts)
    return _other_layout(everywhere) or _other_values(ranks, copies, everywhere)


def _other_layout(everywhere: list[list[Copies]]) -> str | None:
    first = everywhere[0]
    for rank, other in enumerate(everywhere):
        if len(other) != len(first):
            what = f"rank 0 gave {len(first)}, rank {rank} gave {len(other)}"
            more = max(first, other, key=len)[min(len(first), len(other)) :]
            what += f"; only in one of them: {', '.join(each.kind for each in more[:SHOWN])}"
        else:
            pairs = zip(first, other, strict=True)
            unlike = [(a, b) for a, b in pairs if a.layout != b.layout]
            if not unlike:
                continue
            a, b = unlike[0]
            what = f"{a.kind} of rank 0 stands where rank {rank} has {b.kind}"
        return (
            f"the workers do not have the same variables: {what}\n"
            "  cause: the program makes other variables, or gives them in another order, in each "
            "worker\n"
            "  do: give the variables that belong together in the same order on all ranks"
        )
    return None


def _other_values(ranks: Ranks, copies: Read, everywhere: list[list[Copies]]) -> str:
    rows = list(zip(*everywhere, strict=True))
    differing = [index for index, row in enumerate(rows) if len(_digests(row)) > 1]
    shown = differing[:SHOWN]
    spreads = _spreads(ranks, {index: copies[index][1] for index in shown})
    lines = [_line(rows[index], spreads[index]) for index in shown]
    if len(differing) > SHOWN:
        lines.append(f"  and {len(differing) - SHOWN} more")
    agreeing = len(rows) - len(differing)
    return "\n".join(
        [
            f"{len(differing)} of {len(rows)} variables differ between replicas "
            f"({ranks.all_replicas} replicas in {ranks.workers} workers)",
            *lines,
            *_causes([rows[index] for index in differing], agreeing),
        ]
    )


def _digests(row: tuple[Copies, ...]) -> set[str]:
    return {value for copies in row for value in copies.digests}


def _line(row: tuple[Copies, ...], spread: str) -> str:
    holders: dict[str, list[int]] = {}
    for rank, copies in enumerate(row):
        value = "/".join(dict.fromkeys(each[:6] for each in copies.digests))
        holders.setdefault(value, []).append(rank)
    where = ", ".join(f"{name_ranks(ranks)}: {value}" for value, ranks in holders.items())
    return f"  {row[0].kind}: {spread}; digests by rank: {where}"


def _spreads(ranks: Ranks, values: dict[int, list[Any]]) -> dict[int, str]:
    """For each variable, the largest difference between two replicas, in words."""
    sizes = {index: sum(copy.size for copy in copies) for index, copies in values.items()}
    small = {index: copies for index, copies in values.items() if sizes[index] <= COMPARED_ELEMENTS}
    told = ranks.exchange(small)
    return {
        index: _spread([copy for each in told for copy in each[index]])
        if index in small
        else "too large to say by how much"
        for index in values
    }


def _spread(copies: list[Any]) -> str:
    if copies[0].dtype == object or copies[0].dtype.kind == "b":
        return "the values differ"
    stacked = np.stack(copies).astype(np.float64)
    nan = np.isnan(stacked)
    if (nan.any(axis=0) != nan.all(axis=0)).any():
        return "NaN on some replicas only"
    stacked = np.where(nan, 0, stacked)
    low, high = stacked.min(axis=0), stacked.max(axis=0)
    largest = np.subtract(high, low, out=np.zeros_like(high), where=high != low).max()
    return f"the largest difference is {largest:.6g}"


def _causes(differing: list[tuple[Copies, ...]], agreeing: int) -> list[str]:
    """What was observed of those that differ, each with the usual cause and what to do."""
    groups: dict[tuple[str, str], list[str]] = {}
    for row in differing:
        groups.setdefault(_cause(row, agreeing), []).append(row[0].name)
    lines = []
    for (cause, cure), names in groups.items():
        listed = ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")
        lines += [f"  cause: {listed}: {cause}", f"  do: {cure}"]
    return lines


def _cause(row: tuple[Copies, ...], agreeing: int) -> tuple[str, str]:
    if not all(copies.is_distributed for copies in row):
        return (
            "made outside strategy.scope(), so that each worker has one of its own, with its own "
            "start value and its own updates",
            "make it inside `with strategy.scope():`",
        )
    if any(len(set(copies.digests)) > 1 for copies in row):
        return (
            "even the replicas of one worker differ, so each replica was given a value of its "
            "own, inside strategy.run",
            "reduce the value over the replicas before it is assigned, or make the variable with "
            "an aggregation (tf.VariableAggregation.MEAN)",
        )
    if row[0].aggregation == "ONLY_FIRST_REPLICA":
        return (
            "its aggregation is ONLY_FIRST_REPLICA, by which TensorFlow takes the value of the "
            "first replica of each worker, not of the first of all",
            "reduce the value over all replicas before it is assigned, or use another aggregation",
        )
    return _assigned_outside(agreeing)


def _assigned_outside(agreeing: int) -> tuple[str, str]:
    """Made in scope, so the same at the start; replicas of a worker agree, workers do not."""
    if agreeing:
        seen = f"made in scope like the {agreeing} that agree"
    else:
        seen = "made in scope, and no variable of those given agrees"
    return (
        f"{seen}. Usually an `assign` (or set_weights, or a restore) outside strategy.run, with "
        "a value that is not the same on all workers: it reaches this worker's copies alone",
        "assign the same value on all workers: reduce it over the replicas first "
        "(strategy.reduce), or have all of them read the same file",
    )
