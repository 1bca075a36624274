"""A file or a folder that one call writes: a Keras model, a SavedModel, what a function makes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfdist_kit._errors import UsageError
from tfdist_kit.adapters.checkpoint import on_read
from tfdist_kit.adapters.checkpoint.staging import Gate, Staging, private_target, recover


@dataclass
class Whole:
    """A file or a folder that one call writes.

    Args:
        where: Where it is to be.
        write: Writes it to a path.
        variables: Those that it reads.
    """

    where: Path
    write: Callable[[str], Any]
    variables: tuple[Any, ...] = ()
    _staging: Staging | None = None

    @property
    def told(self) -> str:
        """What is saved and where."""
        return str(self.where)

    def prepare(self, *, is_chief: bool) -> bool:
        """Make the place to write to."""
        target = self.where.absolute() if is_chief else private_target()
        target.parent.mkdir(parents=True, exist_ok=True)
        recover(target)
        self._staging = Staging(target)
        return True

    def publish(self, gate: Gate) -> str:
        """Write beside the target, meet, and rename."""
        staging = self._staged()
        self._write(staging.path)
        gate()
        staging.publish()
        return str(self.where)

    def take_part(self, gate: Gate) -> None:
        """Write to a temp folder, and meet."""
        self._write(self._staged().path.with_name(self.where.name))
        gate()

    def _write(self, path: Path) -> None:
        with on_read.read_once(self.variables):
            self.write(str(path))

    def _staged(self) -> Staging:
        assert self._staging is not None
        return self._staging

    def clean_up(self) -> None:
        """Remove the place."""
        if self._staging is not None:
            self._staging.remove()


def writer(
    target: Any, where: Path, options: Mapping[str, Any]
) -> tuple[Callable[[str], Any], tuple[Any, ...]]:
    """How to write `target` to a path, and the variables that are read while it is written."""
    import tensorflow as tf

    if hasattr(target, "save_weights"):
        write = _keras_writer(target, where)
        return functools.partial(_call, write, options), _keras_variables(target)
    if isinstance(target, tf.Module | tf.__internal__.tracking.Trackable):
        return functools.partial(_call, functools.partial(tf.saved_model.save, target), options), ()
    if callable(target):
        return functools.partial(_call, target, options), ()
    raise UsageError(
        f"a {type(target).__name__} cannot be saved",
        hint="give a tf.train.Checkpoint or CheckpointManager, a Keras model, a tf.Module, or a "
        "function that writes to the path it is given",
    )


def _call(write: Callable[..., Any], options: Mapping[str, Any], path: str) -> None:
    write(path, **options)


def _keras_writer(model: Any, where: Path) -> Callable[..., Any]:
    if where.name.endswith(".weights.h5"):
        return model.save_weights  # type: ignore[no-any-return]
    if where.suffix in (".keras", ".h5"):
        return model.save  # type: ignore[no-any-return]
    if where.suffix:
        raise UsageError(
            f"path is {str(where)!r}, from whose end no format of Keras can be told",
            hint="end it in .keras or .weights.h5; a path without an end becomes a SavedModel",
        )
    return model.export  # type: ignore[no-any-return]


def _keras_variables(model: Any) -> tuple[Any, ...]:
    optimizer = getattr(model, "optimizer", None)
    return (
        *model.variables,
        *getattr(model, "metrics_variables", ()),
        *(getattr(optimizer, "variables", ()) if optimizer is not None else ()),
    )
