"""What apply_gradients does with the gradients: checks, the sum over replicas, each table's update.

gradients -> none missing by mistake, each of its activation's shape -> row gradients of each group
    -> merge_call: summed over replicas and workers -> parted by table -> update_rows
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from tfdist_kit._errors import UsageError
from tfdist_kit.adapters.tpu_embedding import replicas
from tfdist_kit.adapters.tpu_embedding.layout import Bundle, Place
from tfdist_kit.adapters.tpu_embedding.lookups import Lookups, long_ids, row_gradients
from tfdist_kit.adapters.tpu_embedding.reducing import Rows, once, summed
from tfdist_kit.adapters.tpu_embedding.updates import update_rows

_log = logging.getLogger(__name__)


def checked_gradients(state: Any, gradients: Sequence[Any]) -> list[Any]:
    """The gradients, zeros where one is None.

    Args:
        state: The embedding's state.
        gradients: The flattened gradients.

    Raises:
        UsageError: One is no tensor or has another shape than its activations.
    """
    if all(gradient is None for gradient in gradients) and not state.warned:
        state.warned = True
        _log.warning(
            "apply_gradients() got no gradient at all, only None, and the tables do not learn: "
            "call tape.watch(activations) right after dequeue()"
        )
    checked = list(gradients)
    for group in state.groups:
        for place in group.features:
            checked[place.index] = _checked(place, group.dim, gradients[place.index])
    return checked


def _checked(place: Place, dim: int, gradient: Any) -> Any:
    shape = [*place.shape, dim]
    if gradient is None:
        return tf.zeros(shape)
    if not isinstance(gradient, tf.Tensor):
        raise UsageError(
            f"the gradient of feature {place.path} is a {type(gradient).__name__}",
            hint="give a tensor, or None for a gradient of zero",
        )
    if not gradient.shape.is_compatible_with(shape):
        raise UsageError(
            f"the gradient of feature {place.path} has the shape {gradient.shape}, its activations "
            f"have {shape}",
            hint="give what tape.gradient(loss, activations) returns",
        )
    return tf.cast(tf.reshape(gradient, shape), tf.float32)


def apply_to_tables(state: Any, lookups: Sequence[Lookups], gradients: Sequence[Any]) -> None:
    """Update all tables; in a replica context.

    Args:
        state: The embedding's state.
        lookups: The batch's, of each group.
        gradients: Those of the activations, flattened.
    """
    strategy = state.embedding._strategy
    alone = strategy.num_replicas_in_sync == 1
    rows = (_by_table if alone else _by_bundle)(state, lookups, gradients)
    worker = replicas.this_worker(strategy)

    def merge(strategy: Any, rows: Any, rates: Any) -> None:
        rates = {name: strategy.experimental_local_results(rate)[0] for name, rate in rates.items()}
        sums = _local(strategy, rows) if alone else _summed(strategy, worker, state.bundles, rows)
        for table in state.embedding._table_config:
            optimizer = _with_rate(table.optimizer, rates.get(table.name))
            variables = state.embedding._variables[table.name]
            _update_table(strategy, variables, optimizer, *sums[table.name])

    tf.distribute.get_replica_context().merge_call(
        tf.autograph.experimental.do_not_convert(merge),
        args=(rows, _rates(state.embedding._table_config)),
    )


def _by_table(
    state: Any, lookups: Sequence[Lookups], gradients: Sequence[Any]
) -> dict[str, tuple[Any, Any]]:
    """Of each table the ids, each once, and their gradients: all there is, in one replica."""
    found = {}
    for group, each in zip(state.groups, lookups, strict=True):
        both = (each.ids, row_gradients(group, each, gradients))
        parted = (tf.split(values, each.counts, num=len(group.tables)) for values in both)
        for table, ids, values in zip(group.tables, *parted, strict=True):
            found[table.name] = once(ids, values)
    return found


def _local(strategy: Any, rows: dict[str, tuple[Any, Any]]) -> dict[str, tuple[Any, ...]]:
    results = strategy.experimental_local_results
    return {name: tuple(results(each)[0] for each in pair) for name, pair in rows.items()}


def _by_bundle(
    state: Any, lookups: Sequence[Lookups], gradients: Sequence[Any]
) -> list[tuple[Any, Any]]:
    """Of each bundle the ids in its long table, and their gradients."""
    pairs = [
        (long_ids(group, each), row_gradients(group, each, gradients))
        for group, each in zip(state.groups, lookups, strict=True)
    ]
    return [_bundle(bundle, pairs) for bundle in state.bundles]


def _bundle(bundle: Bundle, pairs: Sequence[tuple[Any, Any]]) -> tuple[Any, Any]:
    if len(bundle.groups) == 1:
        return pairs[bundle.groups[0][0]]
    found = [pairs[number] for number, _ in bundle.groups]
    ids = [ids + base for base, (ids, _) in zip(bundle.offsets, found, strict=False)]
    return tf.concat(ids, 0), tf.concat([values for _, values in found], 0)


def _rates(tables: Sequence[Any]) -> dict[str, Any]:
    """The learning rates that are functions: each is called once, as for a TPU."""
    values: dict[Any, Any] = {}
    rates = {}
    for table in tables:
        rate = table.optimizer.learning_rate
        if callable(rate):
            if rate not in values:
                values[rate] = _rate(table.name, rate())
            rates[table.name] = values[rate]
    return rates


def _rate(table: str, given: Any) -> Any:
    try:
        rate = None if given is None else tf.convert_to_tensor(given)
    except (TypeError, ValueError):
        rate = None
    is_number = rate is not None and (rate.dtype.is_floating or rate.dtype.is_integer)
    if rate is None or not is_number or rate.shape.rank not in (0, None):
        raise UsageError(
            f"the learning_rate of table {table!r} is a function that returned {given!r}",
            hint="let it return a number, a scalar tensor or a variable",
        )
    return tf.cast(rate, tf.float32)


def _summed(
    strategy: Any, worker: int, bundles: Sequence[Bundle], rows: Sequence[tuple[Any, Any]]
) -> dict[str, tuple[Any, Any]]:
    """Of each table the ids, each once, and the sums of all replicas."""
    parts = [
        Rows(ids, gradients, bundle.dim, bundle.chunk)
        for bundle, (ids, gradients) in zip(bundles, rows, strict=True)
    ]
    totals = zip(bundles, summed(strategy, worker, parts), strict=True)
    return {name: pair for bundle, total in totals for name, pair in _parted(bundle, *total)}


def _parted(bundle: Bundle, ids: Any, gradients: Any) -> Iterator[tuple[str, tuple[Any, Any]]]:
    starts = tf.constant(bundle.starts, tf.int64)
    table_of = tf.searchsorted(starts, ids, side="right") - 1
    parted = (
        tf.dynamic_partition(each, table_of, len(bundle.tables))
        for each in (ids - tf.gather(starts, table_of), gradients)
    )
    for table, own_ids, own_gradients in zip(bundle.tables, *parted, strict=True):
        yield table.name, (own_ids, own_gradients)


def _with_rate(optimizer: Any, rate: Any) -> Any:
    if rate is None:
        return optimizer
    optimizer = copy.copy(optimizer)
    optimizer.learning_rate = rate
    return optimizer


def _update_table(strategy: Any, variables: Any, optimizer: Any, ids: Any, gradients: Any) -> None:
    names = ["parameters", *(name for name in variables if name != "parameters")]

    def update(*components: Any) -> None:
        *own, ids, gradients = components
        update_rows(optimizer, dict(zip(names, own, strict=True)), ids, gradients)

    first, *others = (variables[name] for name in names)
    strategy.extended.update(first, update, args=(*others, ids, gradients))
