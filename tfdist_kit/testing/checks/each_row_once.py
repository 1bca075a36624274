"""Is each row of the data read exactly once over all workers?

the plain dataset, or rows=  -> what has to be read
the distributed dataset      -> what each worker was given in one epoch   (`reading`)
                             -> equal in number and sum of digests? else who read what (`faults`)
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from numbers import Integral
from typing import Any

from tfdist_kit._errors import UsageError
from tfdist_kit.launcher.hangs.explain import name_ranks
from tfdist_kit.testing.checks import faults, reading
from tfdist_kit.testing.checks.ranks import Ranks
from tfdist_kit.testing.checks.rows import Rows, Signature, add_totals


def assert_each_row_once(
    dataset: Any, rows: Any = None, *, strategy: Any = None, max_batches: int = 100_000
) -> None:
    """Check that the workers together read each row of the data once in an epoch.

    Call it in every worker. A row is equal to another if all its components are; a row that the
    data has twice must be read twice. In which order and by whom is free, and so are the empty
    batches that TensorFlow gives to a worker with less data.

    Args:
        dataset: A `tf.data.Dataset` in batches of the global batch size, which the check
            distributes by ``strategy.experimental_distribute_dataset``; or anything that yields
            this worker's batches (what a strategy distributed, what
            `tfdist_kit.adapters.datasets.load` returns, a list).
        rows: All rows that have to be read: a dataset (of rows, or of batches of any size),
            arrays in the structure of a batch, or just the number of rows, which must then all
            be different. Without it, they are what `dataset` itself yields in one pass.
        strategy: The strategy; None for the one in whose scope this is called, or else for
            `tfdist_kit.multi_worker_mirrored()`.
        max_batches: After how many batches the data counts as endless.

    Raises:
        AssertionError: Rows are lost, doubled or unknown, or reading failed in a worker; says
            how many, shows some, and gives the cause that was seen. On all ranks the same.
        UsageError: It cannot be told: the data never ends, is not batched, or `rows` is missing.
    """
    __tracebackhide__ = True
    ranks = Ranks.of(strategy)
    ranks.together("checking the arguments", lambda: _check(dataset, rows, max_batches))
    _check_same_kind(ranks, (reading.is_dataset(dataset), reading.is_distributed(dataset)))
    plain = _plain_pass(ranks, dataset, max_batches) if rows is None else None
    share = reading.read_share(ranks, dataset, max_batches)
    told = ranks.exchange((share.total, share.signature))
    signature = next((each for _, each in told if each), None)
    total = add_totals(total for total, _ in told)
    if isinstance(rows, Integral):
        message = _count_fault(ranks, share, int(rows))
    else:
        wanted = plain or ranks.together("reading rows=", lambda: _given(rows, signature))
        message = _fault(ranks, dataset, wanted, share, total, plain is not None, max_batches)
    if message:
        raise AssertionError(message)


def _check(dataset: Any, rows: Any, max_batches: int) -> None:
    if isinstance(rows, bool) or (isinstance(rows, Integral) and int(rows) < 1):
        raise UsageError(f"rows is {rows!r}", hint="give the number of rows, or the rows")
    if max_batches < 1:
        raise UsageError(f"max_batches is {max_batches!r}", hint="give a number above 0")
    if not hasattr(dataset, "__iter__"):
        raise UsageError(f"the data is {dataset!r}", hint="give a tf.data.Dataset")
    reading.refuse_endless(dataset)
    if reading.is_dataset(dataset):
        _check_batched(dataset.element_spec)
    elif rows is None:
        raise UsageError(
            f"a {type(dataset).__name__} yields one worker's rows, and says nothing of all rows",
            hint="give rows=: a dataset or arrays with all rows, or their number",
        )


def _check_batched(spec: Any) -> None:
    import tensorflow as tf

    if any(leaf.shape.rank == 0 for leaf in tf.nest.flatten(spec)):
        raise UsageError(
            "the dataset yields single rows", hint="batch it with the global batch size"
        )


def _check_same_kind(ranks: Ranks, kind: tuple[bool, bool]) -> None:
    kinds = ranks.exchange(kind)
    if len(set(kinds)) > 1:
        raise UsageError(
            "the workers gave different kinds of data",
            hint="call the check with the same kind of dataset on all ranks",
        )


def _plain_pass(ranks: Ranks, dataset: Any, max_batches: int) -> Rows:
    return ranks.together(
        "reading the plain dataset", lambda: reading.read_plain(dataset, max_batches)
    )


def _given(rows: Any, signature: Signature | None) -> Rows:
    """The rows that the user says are all."""
    import tensorflow as tf

    if not reading.is_dataset(rows):
        rows = tf.data.Dataset.from_tensor_slices(rows)
    reading.refuse_endless(rows)
    dimensions = [leaf.shape.rank for leaf in tf.nest.flatten(rows.element_spec)]
    if signature and dimensions == [rank - 1 for _, rank in signature]:
        rows = rows.batch(1)
    wanted = Rows()
    for batch in rows:
        wanted.add(batch)
    if signature and wanted.signature and signature != wanted.signature:
        raise UsageError(
            f"rows= has {_described(wanted.signature)}, but the batches have "
            f"{_described(signature)}",
            hint="give rows of the same structure, types and shapes as those that are read",
        )
    return wanted


def _described(signature: Signature) -> str:
    return " and ".join(f"{dtype} with {rank} dimensions" for dtype, rank in signature)


def _fault(
    ranks: Ranks,
    dataset: Any,
    wanted: Rows,
    share: Rows,
    total: tuple[int, int],
    is_own: bool,
    max_batches: int,
) -> str | None:
    """What is wrong with what was read; a collective, as is all that it calls."""
    wanted_alike = len(set(ranks.exchange(wanted.total))) == 1
    if not wanted_alike and not is_own:
        raise UsageError(
            "rows= is not the same on all workers",
            hint="give all rows that there are, on each worker",
        )
    if wanted_alike and wanted.total == total:
        return None
    plain = wanted if is_own else None
    if plain is None and reading.is_dataset(dataset):
        plain = _plain_pass(ranks, dataset, max_batches)
    found = faults.Found(
        shares=tuple(ranks.exchange(share.counts)),
        wanted=tuple(ranks.exchange(wanted.order)),
        plain=tuple(ranks.exchange(plain.order)) if plain is not None else None,
        policy=_policy(dataset),
    )
    if not wanted_alike and not found.faults:
        raise _each_has_its_own()
    return _told(ranks, found, {**wanted.texts, **share.texts})


def _each_has_its_own() -> UsageError:
    return UsageError(
        "each worker's dataset has other rows, and all of these are read once; whether they are "
        "all rows that there are cannot be told",
        hint="give rows=: a dataset or arrays with all rows, or their number",
    )


def _policy(dataset: Any) -> str | None:
    if not reading.is_dataset(dataset):
        return None
    return str(dataset.options().experimental_distribute.auto_shard_policy.name)


def _count_fault(ranks: Ranks, share: Rows, number: int) -> str | None:
    """Check against the number of rows alone."""
    numbers = ranks.exchange(number)
    if len(set(numbers)) > 1:
        raise UsageError(f"rows= is {numbers} on the workers", hint="give the same number to all")
    shares = tuple(ranks.exchange(share.counts))
    seen = sum(shares, Counter[bytes]())
    order = tuple(sorted(seen))
    if len(seen) == number and all(count == 1 for count in seen.values()):
        return None
    missing = max(0, number - len(seen))
    found = faults.Found(shares, (order,), None, None, extra=max(0, len(seen) - number))
    return _told(ranks, dataclasses.replace(found, missing=missing), share.texts)


def _told(ranks: Ranks, found: faults.Found, texts: dict[bytes, str]) -> str:
    """The message, with the texts of its examples, which only some of the workers may know."""
    needed = {digest for fault in found.faults for digest in fault.examples}
    known: dict[bytes, str] = {}
    for each in ranks.exchange({digest: texts[digest] for digest in needed if digest in texts}):
        known.update(each)
    return found.message(known, name_ranks)
