"""One restore that every worker makes, of one and the same file or checkpoint.

the chief: which one? -> every worker reads that -> all are done? -> all return
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tfdist_kit._errors import CheckpointError, UsageError
from tfdist_kit.adapters._meeting import group_of
from tfdist_kit.adapters._together import Together
from tfdist_kit.adapters.checkpoint.jobs import local_path
from tfdist_kit.adapters.checkpoint.saving import DEADLINE, require_eager, require_strategy
from tfdist_kit.adapters.checkpoint.staging import recover

Find = Callable[[], str | None]


def restore(
    strategy: Any,
    target: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    deadline: float = DEADLINE,
    partial: bool = False,
) -> str | None:
    """Restore what `save` has saved; every worker makes this call, and all restore the same.

    Args:
        strategy: The strategy; as for `save`.
        target: A `tf.train.CheckpointManager` or `tf.train.Checkpoint`; a Keras model, into
            which weights are loaded (and its optimizer's, if it is compiled); or a function,
            which is called with the path. A SavedModel is a new object: `tf.saved_model.load`.
        path: What was given to `save`. For a checkpoint also its path with its number, or a
            folder, in which the newest is taken.
        deadline: Seconds to wait, at each stage, for the last worker to come to it.
        partial: Whether a checkpoint may lack what `target` has.

    Returns:
        What was restored, a checkpoint's path with its number; None when nothing was saved yet.

    Raises:
        UsageError: That cannot be restored.
        CheckpointError: Some worker could not read it, for example because it does not see the
            chief's disk, or did not make this call within `deadline`; names it.
    """
    require_eager()
    require_strategy(strategy)
    group = group_of(strategy)
    try:
        find, read = _plan(strategy, target, path, partial=partial)
    except UsageError as error:  # told to the others, who wait for this worker
        Together(group, deadline=deadline, doing="restored", what=str(path)).fail(error)
    what = str(path) if path is not None else str(target.directory)
    together = Together(group, deadline=deadline, doing="restored", what=what)
    found = together.stage(lambda: find() if group.is_chief else None, is_usage=True)[group.chief]
    if found is not None:
        together.stage(lambda: read(found))
    return found


def _plan(
    strategy: Any, target: Any, path: str | os.PathLike[str] | None, *, partial: bool
) -> tuple[Find, Callable[[str], None]]:
    """How to find what to restore, on the chief, and how to read it, on all."""
    import tensorflow as tf

    if isinstance(target, tf.train.CheckpointManager):
        if path is not None:
            raise UsageError("path was given for a CheckpointManager", hint="leave path out")
        return lambda: target.latest_checkpoint, _checkpoint_reader(target.checkpoint, partial)
    where = local_path(path)
    if isinstance(target, tf.train.Checkpoint):
        return lambda: _newest(where), _checkpoint_reader(target, partial)
    if hasattr(target, "load_weights"):
        if where.suffix not in (".keras", ".h5"):
            raise UsageError(
                f"{where} cannot be loaded into a Keras model",
                hint="give a file that ends in .keras or .weights.h5; a SavedModel is loaded by "
                "tf.saved_model.load",
            )
        return lambda: _whole(where), lambda found: _load_weights(strategy, target, found)
    if callable(target) and not isinstance(target, tf.Module):
        return lambda: _whole(where), lambda found: _drop(target(found))
    raise UsageError(
        f"nothing can be restored into a {type(target).__name__}",
        hint="give a tf.train.Checkpoint or CheckpointManager, a Keras model or a function; a "
        "SavedModel is loaded by tf.saved_model.load",
    )


def _drop(_: Any) -> None:
    """What a caller's function returns concerns nobody."""


def _whole(where: Path) -> str | None:
    if where.parent.is_dir():
        recover(where.absolute())
    return str(where) if where.exists() else None


def _newest(where: Path) -> str | None:
    """A checkpoint by its path, by its path without the number, or the newest of a folder."""
    import tensorflow as tf

    if where.with_name(f"{where.name}.index").exists():
        return str(where)
    if where.is_dir():
        newest: str | None = tf.train.latest_checkpoint(str(where))
        return newest
    newest = tf.train.latest_checkpoint(str(where.parent))
    named = newest and re.fullmatch(rf"{re.escape(where.name)}-\d+", Path(newest).name)
    return newest if named else None


def _checkpoint_reader(checkpoint: Any, partial: bool) -> Callable[[str], None]:
    def read(found: str) -> None:
        if not Path(f"{found}.index").exists():
            raise CheckpointError(
                f"this worker does not see {found}",
                hint="all workers must see the chief's disk under the same path",
            )
        status = checkpoint.restore(found)
        if not partial:
            try:
                status.assert_existing_objects_matched()
            except AssertionError as error:
                raise CheckpointError(
                    f"{found} lacks what is to be restored: {error}",
                    hint="partial=True restores what there is",
                ) from error

    return read


def _load_weights(strategy: Any, model: Any, found: str) -> None:
    build_optimizer(strategy, model)
    model.load_weights(found)


def build_optimizer(strategy: Any, model: Any) -> None:
    """Make the optimizer's variables; Keras skips their part of a file otherwise."""
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None or getattr(optimizer, "built", True):
        return
    with strategy.scope() if strategy is not None else contextlib.nullcontext():
        optimizer.build(model.trainable_variables)
