"""What is wrong with the rows that the workers have read, and what that shows about the cause.

Pure: from what each rank read and what there was to read, to the text of a message.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from functools import cached_property

EXAMPLES = 3
Digest = bytes
Advice = tuple[str, str]


@dataclasses.dataclass(frozen=True)
class Fault:
    """Rows that the data has ``wanted`` times each and that were read ``seen`` times."""

    wanted: int
    seen: int
    number: int
    examples: tuple[Digest, ...]

    def __str__(self) -> str:
        times = {0: "never read", 1: "read once", 2: "read twice"}
        how = times.get(self.seen, f"read {self.seen} times")
        if self.wanted == 0:
            return f"{self.number} {how}, but not among the rows"
        if self.wanted == 1:
            return f"{self.number} {how}"
        return f"{self.number} {how}, which the data has {self.wanted} times"


@dataclasses.dataclass(frozen=True)
class Found:
    """All that is known.

    Attributes:
        shares: How often each rank read which row.
        wanted: The rows to be read, in order, as each rank knows them.
        plain: What each rank's plain dataset yields, in order; None where there is none.
        policy: The plain dataset's ``auto_shard_policy``.
        missing: Rows that are missing, where only their number is known.
        extra: Rows that are too many, where only their number is known.
    """

    shares: tuple[Counter[Digest], ...]
    wanted: tuple[list[Digest] | tuple[Digest, ...], ...]
    plain: tuple[list[Digest], ...] | None
    policy: str | None
    missing: int = 0
    extra: int = 0

    @cached_property
    def seen(self) -> Counter[Digest]:
        """How often each row was read."""
        return sum(self.shares, Counter[Digest]())

    @cached_property
    def reference(self) -> Counter[Digest]:
        """How often each row is to be read: as often as on the rank that has it most."""
        reference: Counter[Digest] = Counter()
        for order in self.wanted:
            reference |= Counter(order)
        return reference

    @cached_property
    def faults(self) -> tuple[Fault, ...]:
        """The rows that were not read as often as the data has them, by how often."""
        groups: dict[tuple[int, int], list[Digest]] = {}
        for digest in dict.fromkeys([*self.reference, *sorted(self.seen)]):
            key = (self.reference[digest], self.seen[digest])
            if key[0] != key[1]:
                groups.setdefault(key, []).append(digest)
        return tuple(
            Fault(wanted, seen, len(digests), tuple(digests[:EXAMPLES]))
            for (wanted, seen), digests in sorted(groups.items(), key=_never_first)
        )

    def message(self, texts: dict[Digest, str], name_ranks: Callable[[list[int]], str]) -> str:
        """What is said to the user."""
        counts = [str(fault) for fault in self.faults]
        if self.missing:
            counts.insert(0, f"{self.missing} never read")
        if self.extra:
            counts.append(f"{self.extra} more different rows read than there are")
        total = self.reference.total() + self.missing - self.extra
        lines = [f"not each row is read once: of {total} rows, {', '.join(counts)}"]
        lines += self._examples(texts, name_ranks)
        each = ", ".join(f"rank {rank}: {n.total()}" for rank, n in enumerate(self.shares))
        lines.append(f"  rows read by {each}")
        cause, cure = self.advice()
        return "\n".join([*lines, f"  cause: {cause}", f"  do: {cure}"])

    def _examples(
        self, texts: dict[Digest, str], name_ranks: Callable[[list[int]], str]
    ) -> list[str]:
        lines = []
        for fault in self.faults:
            for digest in fault.examples:
                readers = [rank for rank, share in enumerate(self.shares) if share[digest]]
                by = f" by {name_ranks(readers)}" if readers else ""
                times = f"{fault.seen} times" if fault.seen else "never"
                lines.append(f"    {times}{by}: row {texts.get(digest, digest.hex()[:8])}")
        return lines

    def advice(self) -> Advice:
        """The cause that was seen, and what to do; else that none was seen."""
        for observe in (
            self._everything,
            self._sharded_twice,
            self._other_order,
            self._other_rows,
            self._same_part,
            self._repeated,
            self._tail,
        ):
            advice = observe()
            if advice:
                return advice
        return (
            "none of the usual patterns was seen",
            "look at how the rows are shared out: at `shard`, `take`, `skip`, `filter` and "
            "`interleave`, and at what differs between workers",
        )

    @property
    def _workers(self) -> int:
        return len(self.shares)

    @property
    def _shared_out(self) -> tuple[list[Digest], ...] | None:
        """Each rank's plain dataset, if it is TensorFlow that gives each worker its part of it."""
        return None if self.policy == "OFF" else self.plain

    @property
    def _has_doubles(self) -> bool:
        return any(fault.seen > fault.wanted for fault in self.faults)

    def _everything(self) -> Advice | None:
        if self._workers == 1 or self.missing:
            return None
        if any(share != self.reference for share in self.shares):
            return None
        if self.policy is not None:
            return (
                "every worker reads every row: the dataset is not sharded (its auto_shard_policy "
                f"is {self.policy})",
                "set options.experimental_distribute.auto_shard_policy to AutoShardPolicy.DATA",
            )
        return (
            "every worker reads every row: what makes each worker's data does not shard it",
            "in the function for distribute_datasets_from_function, "
            "dataset.shard(context.num_input_pipelines, context.input_pipeline_id)",
        )

    def _sharded_twice(self) -> Advice | None:
        if self._shared_out is None or self._workers == 1 or self._has_doubles:
            return None
        parts = [set(order) for order in self._shared_out]
        if not all(parts) or len(set.union(*parts)) != sum(map(len, parts)):
            return None
        return (
            "sharded twice: each worker's plain dataset has rows of its own already, and "
            "TensorFlow gives each worker only a part of these",
            "leave the first sharding out, or set "
            "options.experimental_distribute.auto_shard_policy to AutoShardPolicy.OFF",
        )

    def _other_order(self) -> Advice | None:
        plain = self._shared_out
        if plain is None or all(order == plain[0] for order in plain):
            return None
        if any(Counter(order) != Counter(plain[0]) for order in plain):
            return None
        return (
            "the plain dataset yields the same rows in another order on each worker, and each "
            "worker then takes its part of its own order: a shuffle without a seed before the "
            "sharding",
            "shuffle(..., seed=...), with the same seed on all workers",
        )

    def _other_rows(self) -> Advice | None:
        plain = self._shared_out
        if plain is None or all(Counter(order) == Counter(plain[0]) for order in plain):
            return None
        return (
            "the plain dataset does not have the same rows on each worker (an unseeded shuffle "
            "before `take`, or a random `map`, does that; so do other files)",
            "give every random step a seed, the same on all workers, and all workers the same data",
        )

    def _same_part(self) -> Advice | None:
        same = all(share == self.shares[0] for share in self.shares)
        if self._workers == 1 or not same or not self.seen:
            return None
        return (
            "all workers read the same part of the data",
            "shard by the worker's own index: context.input_pipeline_id of "
            "context.num_input_pipelines",
        )

    def _repeated(self) -> Advice | None:
        times = {self.seen[row] / count for row, count in self.reference.items()}
        if self.missing or self.extra or len(times) != 1 or self.seen.keys() - self.reference:
            return None
        [factor] = times
        if factor < 2 or any(set(a) & set(b) for a, b in self._pairs()):
            return None
        return (
            f"each worker reads its own rows {factor:g} times: the data is repeated",
            "check one epoch: leave repeat() out",
        )

    def _pairs(self) -> list[tuple[Counter[Digest], Counter[Digest]]]:
        return [(a, b) for i, a in enumerate(self.shares) for b in self.shares[i + 1 :]]

    def _tail(self) -> Advice | None:
        if self._has_doubles or not self.faults:
            return None
        order = self.wanted[0]
        lost = {row for fault in self.faults for row in self.reference if self._is_lost(row)}
        positions = [place for place, row in enumerate(order) if row in lost]
        if positions != list(range(len(order) - len(positions), len(order))):
            return None
        return (
            f"exactly the last {len(positions)} rows are lost",
            "look for drop_remainder=True, `take`, or a number of steps that leaves the last "
            "batch out",
        )

    def _is_lost(self, row: Digest) -> bool:
        return self.seen[row] < self.reference[row]


def _never_first(group: tuple[tuple[int, int], list[Digest]]) -> tuple[int, int]:
    (wanted, seen), _ = group
    return seen, wanted
