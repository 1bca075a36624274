"""A restore of tables that have another name in the checkpoint.

renamed -> are its tables those of the embeddings? -> for each a stand-in that has the table under
    its name in the checkpoint -> TensorFlow's own restore

Two tables may be restored from one, and one of them may have the name itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tfdist_kit._errors import UsageError


def require_names(embeddings: Iterable[Any], renamed: Any) -> Mapping[str, str]:
    """The names of tables in the checkpoint, by those in the embeddings.

    Raises:
        UsageError: It is no dict of names, or the embeddings lack such a table.
    """
    renamed = {} if renamed is None else renamed
    is_named = isinstance(renamed, Mapping) and all(
        isinstance(name, str) for pair in renamed.items() for name in pair
    )
    hint = "give renamed={name in the embedding: name in the checkpoint}"
    if not is_named:
        raise UsageError(f"renamed is {renamed!r}", hint=hint)
    names = {table.name for embedding in embeddings for table in embedding._table_config}
    if unknown := sorted(renamed.keys() - names):
        raise UsageError(
            f"renamed has {', '.join(map(repr, unknown))}, but the embedding has the tables "
            f"{', '.join(map(repr, sorted(names)))}",
            hint=hint,
        )
    return dict(renamed)


def require_tables(embeddings: Iterable[Any]) -> None:
    """Build what is not built, if that can be done without shapes."""
    for embedding in embeddings:
        if not embedding._built:
            if getattr(embedding, "_using_tpu", False):
                raise UsageError(
                    "renamed is given, but the embedding is not built, which on a TPU takes shapes",
                    hint="call embedding.build() with the input shapes of one replica first",
                )
            _ = embedding.embedding_tables


def read_renamed(
    embedding: Any, names: Sequence[str], path: str, renamed: Mapping[str, str]
) -> None:
    """Restore an embedding's renamed tables.

    Args:
        embedding: The embedding, whose tables are made.
        names: The attributes that lead to it in the checkpoint.
        path: The checkpoint.
        renamed: As `require_names` returns it.
    """
    import tensorflow as tf

    for name in renamed.keys() & embedding._variables.keys():
        stand_in = tf.train.Checkpoint(**_by_old_name(embedding._variables[name], renamed[name]))
        for each in reversed(names):
            stand_in = tf.train.Checkpoint(**{each: stand_in})
        stand_in.read(path).expect_partial()
    getattr(embedding, "_load_variables", tuple)()  # onto the TPU, if there is one


def _by_old_name(variables: Mapping[str, Any], old: str) -> dict[str, Any]:
    return {
        old if slot == "parameters" else f"{old}/{slot}": variable
        for slot, variable in variables.items()
    }
