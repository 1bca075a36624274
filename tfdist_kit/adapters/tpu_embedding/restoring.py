"""A restore that never leaves an embedding's tables silently as they were.

TensorFlow restores what it finds: with a renamed table or another optimizer it says nothing, and
training starts anew. Here everything is compared first, and only then is a variable changed.

checkpoint, path -> each object with its counterpart in the checkpoint -> do tables, slots and
    variables fit? -> TensorFlow's own restore -> tables that have another name there
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from tfdist_kit._errors import EmbeddingError, UsageError
from tfdist_kit.adapters.tpu_embedding.embeddings import is_embedding, require_embedding
from tfdist_kit.adapters.tpu_embedding.fitting import Misfit, misfits
from tfdist_kit.adapters.tpu_embedding.renaming import (
    read_renamed,
    require_names,
    require_tables,
)
from tfdist_kit.adapters.tpu_embedding.saved import SavedGraph, damage_told, read_graph

Path = str | os.PathLike[str]


def restore(checkpoint: Any, path: Path, *, renamed: Mapping[str, str] | None = None) -> str:
    """Restore a checkpoint that holds embeddings, all of it or nothing.

    The embedding may be a `TPUEmbedding` of any kind or a `TPUEmbeddingForServing`, built or not;
    the checkpoint may come from any of them, from a TPU with any number of hosts too. An embedding
    made with ``optimizer=None`` takes the tables alone, and not necessarily all of them.

    Under several workers each of them makes this call, and all must see the same disk.

    Args:
        checkpoint: The `tf.train.Checkpoint` that holds the embedding and all else.
        path: What `Checkpoint.save` or `Checkpoint.write` has returned, or a folder, in which the
            newest is taken.
        renamed: For each table that has another name in the checkpoint, its name there; several
            may have the same. The embedding is built if it is not yet; under a `TPUStrategy` it
            must be.

    Returns:
        The path of what was restored.

    Raises:
        UsageError: `path` is no checkpoint, or `checkpoint` no `tf.train.Checkpoint` with an
            embedding.
        EmbeddingError: Tables, slots or other variables are missing or have another shape; says
            which, and what the checkpoint has. No variable was changed. Or the checkpoint is
            damaged; if the values of its variables are, TensorFlow finds it when it reads them,
            and of an embedding that is not built it reads them later.
    """
    graph = read_graph(path)
    pairs = _paired(_require_checkpoint(checkpoint), graph)
    embeddings = _require_embeddings(pairs)
    others = require_names([pair.live for pair in embeddings], renamed)
    found = [misfit for each in embeddings for misfit in _of_embedding(each, graph, others)]
    _require_fit(graph.path, found or list(_of_variables(pairs, embeddings, graph)))
    if others:
        require_tables(pair.live for pair in embeddings)
    status = _read(checkpoint, graph)
    if others:
        status.expect_partial()
        for pair in embeddings:
            with damage_told(graph.path):
                read_renamed(pair.live, pair.names, graph.path, others)
    else:
        _require_matched(status, graph.path)
    return graph.path


def assert_checkpoint_matches(path: Path, embedding: Any) -> None:
    """Require a checkpoint to have the very tables and slots of an embedding.

    Nothing is restored. For a checkpoint that something else is going to restore, such as
    `tfdist_kit.adapters.checkpoint.restore` or a Keras callback.

    Args:
        path: The checkpoint, or a folder, in which the newest is taken.
        embedding: The embedding, built or not.

    Raises:
        UsageError: `path` is no checkpoint, or `embedding` no embedding.
        EmbeddingError: A table or slot is missing, is too many or has another shape. Of several
            embeddings in the checkpoint one must fit. Or the checkpoint is damaged.
    """
    require_embedding(embedding)
    graph = read_graph(path)
    numbers: list[int | None] = [*graph.embeddings()] or [None]
    found = [list(misfits(embedding, graph, number, {})) for number in numbers]
    _require_fit(graph.path, min(found, key=len))


@dataclass(frozen=True)
class _Pair:
    names: tuple[str, ...]
    live: Any
    number: int | None

    @property
    def where(self) -> str:
        return "/".join(self.names)


def _require_checkpoint(checkpoint: Any) -> Any:
    import tensorflow as tf

    if not isinstance(checkpoint, tf.train.Checkpoint):
        raise UsageError(
            f"checkpoint is a {type(checkpoint).__name__}",
            hint="give a tf.train.Checkpoint; of a CheckpointManager, manager.checkpoint and "
            "manager.latest_checkpoint",
        )
    return checkpoint


def _paired(checkpoint: Any, graph: SavedGraph) -> list[_Pair]:
    """Each object that the checkpoint would restore, with its number in the file."""
    import tensorflow as tf

    view = tf.train.TrackableView(checkpoint)
    waiting = [
        _Pair((name,), child, graph.child(0, name))
        for name, child in view.children(checkpoint).items()
        if name not in ("_root", "save_counter")
    ]
    pairs: dict[int, _Pair] = {}
    while waiting:
        pair = waiting.pop(0)
        known = pairs.get(id(pair.live))
        if known is not None and (known.number is not None or pair.number is None):
            continue
        pairs[id(pair.live)] = pair
        for name, child in view.children(pair.live).items():
            number = graph.child(pair.number, name)
            waiting.append(_Pair((*pair.names, name), child, number))
    return list(pairs.values())


def _require_embeddings(pairs: list[_Pair]) -> list[_Pair]:
    embeddings = [pair for pair in pairs if is_embedding(pair.live)]
    if not embeddings:
        raise UsageError(
            "the tf.train.Checkpoint holds no embedding",
            hint="give it one: tf.train.Checkpoint(model=model, embedding=embedding)",
        )
    return embeddings


def _of_embedding(pair: _Pair, graph: SavedGraph, renamed: Mapping[str, str]) -> Iterator[Misfit]:
    elsewhere = [place or "<root>" for place in graph.embeddings().values()]
    if elsewhere and not graph.tables(pair.number):
        yield Misfit(
            f"{pair.where or '<root>'}: the checkpoint has no embedding here, but it has at "
            f"{', '.join(elsewhere)}",
            "give tf.train.Checkpoint the embedding under the name that it was saved with",
        )
        return
    for misfit in misfits(pair.live, graph, pair.number, renamed):
        yield Misfit(f"{pair.where}: {misfit.text}" if pair.where else misfit.text, misfit.cure)


def _of_variables(
    pairs: list[_Pair], embeddings: list[_Pair], graph: SavedGraph
) -> Iterator[Misfit]:
    """Variables beside the embeddings, which were compared already."""
    import tensorflow as tf

    for pair in pairs:
        if not _is_variable(pair.live) or any(
            pair.names[: len(each.names)] == each.names for each in embeddings
        ):
            continue
        shape, wanted = graph.shape(pair.number), tf.TensorShape(pair.live.shape)
        if shape is None or not wanted.is_compatible_with(shape):
            has = "none" if shape is None else f"one of shape {shape}"
            yield Misfit(
                f"{pair.where}: the checkpoint has {has}, the program wants a variable of shape "
                f"{wanted}",
                "make the model as it was when it was saved, or leave it out of the Checkpoint",
            )


def _is_variable(live: Any) -> bool:
    """TensorFlow's, of any kind, or Keras'."""
    return hasattr(live, "assign") and hasattr(live, "shape")


def _require_fit(path: str, found: list[Misfit]) -> None:
    if found:
        _refuse(path, found)


def _refuse(path: str, found: list[Misfit]) -> NoReturn:
    cures = dict.fromkeys(misfit.cure for misfit in found)
    raise EmbeddingError(
        f"{path} does not fit, and nothing was restored:\n"
        + "\n".join(f"    {misfit.text}" for misfit in found),
        hint="\n        ".join(cures),
    )


def _read(checkpoint: Any, graph: SavedGraph) -> Any:
    """What `write` has written has no counter of saves, and is for `read`."""
    is_written = graph.child(0, "save_counter") is None
    with damage_told(graph.path):
        return checkpoint.read(graph.path) if is_written else checkpoint.restore(graph.path)


def _require_matched(status: Any, path: str) -> None:
    try:
        status.assert_existing_objects_matched()
    except AssertionError as error:
        raise EmbeddingError(
            f"{path} has all variables, but not all that the tf.train.Checkpoint holds: {error}",
            hint="leave out of the Checkpoint what was not in it when it was saved",
        ) from error
