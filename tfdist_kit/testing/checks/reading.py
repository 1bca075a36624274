"""Reading data in all workers for one epoch, so that none of them is left waiting.

    dataset -> strategy -> next, next, ... on all ranks, each a collective (is anyone's data left?)
            -> this worker's rows, or its exception, after all have come to the end

A worker whose data fails goes on with data that is empty, because the others need its answer to
that question in every step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tfdist_kit._errors import UsageError
from tfdist_kit.testing.checks.ranks import Ranks
from tfdist_kit.testing.checks.rows import Rows

WHAT = "reading the data"


def is_dataset(data: Any) -> bool:
    """Whether it is a plain `tf.data.Dataset`, which no strategy has distributed."""
    import tensorflow as tf

    return isinstance(data, tf.data.Dataset)


def is_distributed(data: Any) -> bool:
    """Whether a strategy has distributed it."""
    import tensorflow as tf

    return isinstance(data, tf.distribute.DistributedDataset)


def refuse_endless(data: Any) -> None:
    """Refuse data that is known to have no end."""
    import tensorflow as tf

    cardinality = getattr(data, "cardinality", None)
    cardinality = cardinality() if callable(cardinality) else cardinality
    if cardinality is not None and int(cardinality) == tf.data.INFINITE_CARDINALITY:
        raise UsageError(
            "the data never ends, so nothing can be said of an epoch",
            hint="leave repeat() out, or take(...) one epoch",
        )


def read_plain(dataset: Any, max_batches: int) -> Rows:
    """Read a dataset (or arrays, as one batch) in this worker alone."""
    rows = Rows()
    for number, batch in enumerate(dataset):
        _stop(number, max_batches)
        rows.add(batch)
    return rows


def read_share(ranks: Ranks, data: Any, max_batches: int) -> Rows:
    """Read this worker's share of `data`. A collective; it fails on all ranks or on none."""
    if is_dataset(data):
        plain = data
        data = ranks.together(
            "distributing the dataset",
            lambda: ranks.strategy.experimental_distribute_dataset(plain),
        )
    iterator = ranks.together(WHAT, lambda: iter(data))
    rows, answered, error = _read_local(ranks, iterator, max_batches)
    if error is not None and ranks.workers > 1 and is_distributed(data):
        _answer_the_others(ranks, max_batches + 1 - answered)
    ranks.agree(WHAT, error)
    return rows


def _read_local(
    ranks: Ranks, iterator: Iterator[Any], max_batches: int
) -> tuple[Rows, int, Exception | None]:
    """This worker's rows, in how many steps it has taken part, and what went wrong."""
    rows = Rows()
    answered = 0
    try:
        for batch in iterator:
            answered += 1
            _stop(answered - 1, max_batches)
            for replica in _replicas(ranks, batch):
                rows.add(replica)
    except Exception as problem:
        return rows, answered, problem
    return rows, answered, None


def _stop(number: int, max_batches: int) -> None:
    if number >= max_batches:
        raise UsageError(
            f"the data has not ended after {max_batches} batches",
            hint="leave repeat() out, or take(...) one epoch; max_batches= allows for more",
        )


def _replicas(ranks: Ranks, batch: Any) -> Iterator[Any]:
    """What each local replica was given; a worker that ran short is given empty batches."""
    import tensorflow as tf

    leaves = tf.nest.flatten(batch)
    local = [ranks.strategy.experimental_local_results(leaf) for leaf in leaves]
    return map(list, zip(*local, strict=True))


def _answer_the_others(ranks: Ranks, steps: int) -> None:
    """Say in each further step of the others that this worker has no data."""
    import tensorflow as tf

    empty = tf.data.Dataset.range(0).batch(ranks.all_replicas)
    iterator = iter(ranks.strategy.experimental_distribute_dataset(empty))
    for _ in zip(range(steps), iterator, strict=False):
        pass
