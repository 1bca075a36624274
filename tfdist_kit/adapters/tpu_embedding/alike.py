"""Are an embedding's tables and features the same on all workers? Asked before they are made.

Workers exchange gradients by the position of a row in all tables, so that tables in another order
would get each other's, without a word; and another optimizer would let their tables drift apart.

each worker: its tables and features, in order -> a meeting, no collective -> all know all
    -> one error, the same on all workers, that names the table or feature and what differs
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tfdist_kit._errors import EmbeddingError
from tfdist_kit.adapters._differing import differences
from tfdist_kit.adapters._meeting import AbsentError, Meeting, group_of
from tfdist_kit.adapters.tpu_embedding.structures import named_features

TIMEOUT = 600.0
"""Seconds that the workers wait for the last one to build its embedding."""

_SHOWN = 4
"""Differences that an error shows."""

_NO_MATTER = ("slot_variable_creation_fn", "low_dimensional_packing_status")


def check_alike(embedding: Any) -> None:
    """Compare the embedding with those of the other workers; each of them calls this.

    Args:
        embedding: A `HostTPUEmbedding`, built or not.

    Raises:
        EmbeddingError: The workers' embeddings differ, or some worker does not build one. The
            same error on all workers that do.
        tf.errors.UnavailableError: A worker has died.
    """
    group = group_of(embedding._strategy)
    if len(group.tasks) < 2:
        return
    words = {"order": dict(_order(embedding)), "rest": dict(_rest(embedding))}
    try:
        told = Meeting(group, TIMEOUT).tell(words)
    except AbsentError as error:
        raise EmbeddingError(
            f"{error} did not build the embedding within {TIMEOUT:g} s",
            hint="every worker must build it: by build(), enqueue() or embedding_tables",
        ) from None
    for part in words:  # what has no partner differs in all the rest
        if found := differences({task: each.get(part, {}) for task, each in told.items()}):
            raise EmbeddingError(
                f"the workers' embeddings differ: {_listed(found)}",
                hint="make the same tables and features in the same order on every worker, with "
                "the same optimizers",
            )


def _listed(texts: list[str]) -> str:
    more = f"; and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return "; ".join(texts[:_SHOWN]) + more


def _order(embedding: Any) -> Iterator[tuple[str, str]]:
    for number, table in enumerate(embedding._table_config):
        yield f"table number {number}", repr(table.name)
    for number, (path, _) in enumerate(named_features(embedding._feature_config)):
        yield f"feature number {number}", repr(path)


def _rest(embedding: Any) -> Iterator[tuple[str, Any]]:
    for table in embedding._table_config:
        for key, value in _of_table(table):
            yield f"{key} of table {table.name!r}", value
    features = named_features(embedding._feature_config)
    for (path, feature), shape in zip(features, embedding._output_shapes, strict=True):
        yield f"the table of feature {path!r}", feature.table.name
        yield f"max_sequence_length of feature {path!r}", feature.max_sequence_length
        yield f"the output shape of feature {path!r}", str(shape)


def _of_table(table: Any) -> Iterator[tuple[str, Any]]:
    for key in ("vocabulary_size", "dim", "combiner"):
        yield key, getattr(table, key)
    yield "the optimizer", None if table.optimizer is None else type(table.optimizer).__name__
    for own in (table.quantization_config, table.optimizer):
        for key, value in vars(own).items() if own is not None else ():
            if key not in _NO_MATTER:
                yield key, _plain(value)


def _plain(value: Any) -> Any:
    """The value as JSON has it; a function cannot be compared."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return "a function" if callable(value) else float(value)
