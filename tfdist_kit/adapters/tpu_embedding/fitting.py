"""Whether an embedding's tables are those of a checkpoint, before anything is restored.

an embedding's configs -> its tables, slots and shapes --+
a checkpoint's embedding -> its tables, slots, shapes ---+-> what differs, and what to do about it
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tfdist_kit.adapters.tpu_embedding.saved import SavedGraph, Shape

_OPTIMIZERS = {
    (): "SGD, or none",
    ("accumulators",): "Adagrad",
    ("accumulators", "momenta"): "AdagradMomentum",
    ("accumulators", "linears"): "FTRL",
    ("momenta", "velocities"): "Adam",
}
_TABLE = "parameters"


@dataclass(frozen=True)
class Misfit:
    """One way in which a checkpoint does not fit.

    Attributes:
        text: What the checkpoint has and what is wanted.
        cure: What to do about it.
    """

    text: str
    cure: str


def misfits(
    embedding: Any, graph: SavedGraph, number: int | None, renamed: Mapping[str, str]
) -> Iterator[Misfit]:
    """Each way in which an embedding's tables are not those of a checkpoint's embedding.

    Args:
        embedding: The embedding, built or not.
        graph: The checkpoint.
        number: The embedding's number in it; None if it has none.
        renamed: For tables whose name has changed, the name in the checkpoint.
    """
    saved = _shapes(graph, number)
    tables = embedding._table_config
    wanted = [(renamed.get(table.name, table.name), table) for table in tables]
    extra = sorted(saved.keys() - {name for name, _ in wanted})
    for name, table in wanted:
        if name in saved:
            yield from _of_table(table, saved[name])
        else:
            yield _missing(name, table, saved, extra)
    if extra and any(table.optimizer is not None for table in tables):
        yield Misfit(
            f"the checkpoint has the tables {_names(extra)}, which the embedding lacks",
            "name every table of the checkpoint in feature_config; an embedding with "
            "optimizer=None, for lookups alone, may lack some",
        )


def _shapes(graph: SavedGraph, number: int | None) -> dict[str, dict[str, Shape]]:
    return {
        name: {slot: graph.shape(each) or () for slot, each in variables.items()}
        for name, variables in graph.tables(number).items()
    }


def _missing(
    name: str, table: Any, saved: Mapping[str, Mapping[str, Shape]], extra: list[str]
) -> Misfit:
    has = [f"{other!r} ({_size(shapes[_TABLE])})" for other, shapes in sorted(saved.items())]
    size = (table.vocabulary_size, table.dim)
    alike = [other for other in extra if saved[other][_TABLE] == size]
    old = alike[0] if len(alike) == 1 else "<old>"
    return Misfit(
        f"table {name!r} ({_size(size)}) is not in the checkpoint, which has "
        f"{', '.join(has) or 'no table'}",
        f"if the table has another name there, give restore(..., renamed={{{table.name!r}: "
        f"{old!r}}}) or TableConfig(name={old!r}); else train it before it is saved"
        if saved
        else "save the checkpoint after the embedding is built, under the same attribute",
    )


def _of_table(table: Any, saved: Mapping[str, Shape]) -> Iterator[Misfit]:
    size = (table.vocabulary_size, table.dim)
    if saved[_TABLE] != size:
        yield Misfit(
            f"table {table.name!r}: the checkpoint has {_size(saved[_TABLE])}, the embedding "
            f"wants {_size(size)}",
            "give TableConfig the vocabulary_size and dim of the checkpoint",
        )
    elif table.optimizer is not None:
        yield from _of_slots(table, saved)


def _of_slots(table: Any, saved: Mapping[str, Shape]) -> Iterator[Misfit]:
    has = sorted(saved.keys() - {_TABLE})
    wants = sorted(table.optimizer._slot_names())
    if has != wants:
        yield Misfit(
            f"table {table.name!r}: the checkpoint has {_slots(has)}, the embedding wants "
            f"{_slots(wants)}",
            "give the table the optimizer that it was trained with; for lookups alone give "
            "optimizer=None, to it and to the embedding",
        )
    elif table.optimizer.slot_variable_creation_fn is None:  # else it may choose any shape
        for slot in has:
            if saved[slot] != saved[_TABLE]:
                yield Misfit(
                    f"table {table.name!r}, slot {slot!r}: the checkpoint has "
                    f"{_size(saved[slot])}, the embedding wants {_size(saved[_TABLE])}",
                    "give the optimizer the slot_variable_creation_fn that it was trained with",
                )


def _slots(names: list[str]) -> str:
    optimizer = _OPTIMIZERS.get(tuple(names), "an optimizer that is not known")
    return f"the slots {_names(names)} ({optimizer})" if names else f"no slots ({optimizer})"


def _names(names: list[str]) -> str:
    return ", ".join(map(repr, names))


def _size(shape: Shape) -> str:
    return " x ".join(map(str, shape)) or "one number"
