"""Who reads what: a split, a global batch and a cluster, as numbers. No TensorFlow here.

Every epoch has ``steps`` global batches. A full one gives each replica the same number of
examples; the last, partial one is spread as evenly as it can be.

Where workers share batches (``same_batches``), a batch is cut into one slice for each replica,
and worker ``i`` of ``n`` takes the slices ``i``, ``i + n``, ... This is how TensorFlow deals, so
that Keras' ``predict`` puts its rows together in the order of the examples.
"""

from __future__ import annotations

import dataclasses

from tfdist_kit._errors import DatasetError


@dataclasses.dataclass(frozen=True)
class Share:
    """What one worker reads of a split in an epoch.

    Args:
        split: Name of the split, for messages.
        examples: Number of examples in the split.
        global_batch: Examples per step, over all replicas.
        drop_remainder: Whether the last, partial batch is left out.
        replicas: Replicas in sync, over all workers.
        workers: Number of workers.
        index: This worker, from 0.
        same_batches: Whether workers take turns in one common order instead of reading a
            contiguous part each.

    Raises:
        DatasetError: The numbers do not fit together.
    """

    split: str
    examples: int
    global_batch: int
    drop_remainder: bool = False
    replicas: int = 1
    workers: int = 1
    index: int = 0
    same_batches: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.workers:
            raise DatasetError(
                f"worker {self.index} of {self.workers} does not exist",
                hint="workers are counted from 0: give worker=(index, count) with index < count",
            )
        if not isinstance(self.global_batch, int) or self.global_batch < 1:
            raise DatasetError(
                f"global_batch is {self.global_batch!r}, but a step needs an example",
                hint="give the number of examples per step over all workers",
            )
        if self.global_batch % self.replicas:
            raise DatasetError(
                f"global_batch {self.global_batch} does not divide by {self.replicas} replicas",
                hint=f"use {self._divisible_batches()}, so that all replicas work alike",
            )
        if self.examples < self.workers:
            raise DatasetError(
                f"split {self.split!r} has {self.examples} examples for {self.workers} workers",
                hint="start fewer workers or use a larger split",
            )
        if not self.steps:
            raise DatasetError(
                f"split {self.split!r} has {self.examples} examples, which is not one full "
                f"batch of {self.global_batch}",
                hint="use a smaller global_batch or drop_remainder=False",
            )

    def _divisible_batches(self) -> str:
        below = self.global_batch // self.replicas * self.replicas
        choices = [str(batch) for batch in (below, below + self.replicas) if batch]
        return " or ".join(choices)

    @property
    def steps(self) -> int:
        """Steps per epoch, the same for all workers."""
        full, rest = divmod(self.examples, self.global_batch)
        return full if self.drop_remainder or not rest else full + 1

    @property
    def used(self) -> int:
        """Examples that all workers read together in an epoch."""
        return min(self.examples, self.steps * self.global_batch)

    @property
    def remainder(self) -> int:
        """Examples in the last batch if it is a partial one, else 0."""
        return self.used % self.global_batch

    @property
    def replica_batch(self) -> int:
        """Examples per step on each replica."""
        return self.global_batch // self.replicas

    @property
    def last_batches(self) -> list[int]:
        """Examples for each replica of this worker in the last step, if it is a partial one."""
        local = self.replicas // self.workers
        if self.same_batches:
            slices = range(self.index, self.replicas, self.workers)
            return [_slice(self.remainder, number, self.replicas) for number in slices]
        own = self.remainder // self.workers + (self.index < self.remainder % self.workers)
        return [_slice(own, number, local) for number in range(local)]

    @property
    def own(self) -> int:
        """Examples that this worker reads in an epoch."""
        return (self.used - self.remainder) // self.workers + sum(self.last_batches)


def _slice(size: int, number: int, count: int) -> int:
    """Size of one of ``count`` slices that are as equal as can be."""
    return size * (number + 1) // count - size * number // count
