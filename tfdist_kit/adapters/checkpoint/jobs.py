"""What can be saved, and how each worker does its part of it.

    CheckpointManager, Checkpoint -> TensorFlow numbers, writes and records it   (`Numbered`)
    a Keras model, a SavedModel, a function that writes -> a file or folder      (`Whole`)

In both, ``gate`` is where all workers meet when everything is written and nothing is visible yet.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from tfdist_kit._errors import UsageError
from tfdist_kit.adapters.checkpoint.numbered import Numbered
from tfdist_kit.adapters.checkpoint.staging import Gate
from tfdist_kit.adapters.checkpoint.whole import Whole, writer


class Job(Protocol):
    """One save, as one worker sees it."""

    @property
    def told(self) -> str:
        """What is saved and where, the same on all workers."""

    def prepare(self, *, is_chief: bool) -> bool:
        """Do all that can fail before a collective; the chief says whether to save at all."""

    def publish(self, gate: Gate) -> str:
        """Write, meet, and make it visible; the chief's part. Returns where it is."""

    def take_part(self, gate: Gate) -> None:
        """Write to a private place for the sake of the collectives, and meet; the others' part."""

    def clean_up(self) -> None:
        """Remove whatever is not visible."""


def job_for(target: Any, path: str | os.PathLike[str] | None, options: Mapping[str, Any]) -> Job:
    """Find out how `target` is saved.

    Raises:
        UsageError: It cannot be saved, or not there.
    """
    import tensorflow as tf

    if isinstance(target, tf.train.CheckpointManager):
        if path is not None:
            raise UsageError(
                f"path is {os.fspath(path)!r}, but a CheckpointManager has a folder of its own",
                hint="leave path out",
            )
        _refuse_others(options, ("check_interval", "checkpoint_number"))
        return Numbered(target.checkpoint, Path(target.directory), target, options)
    where = local_path(path)
    if isinstance(target, tf.train.Checkpoint):
        _refuse_others(options, ())
        return Numbered(target, where, None, options)
    return Whole(where, *writer(target, where, options))


def local_path(path: str | os.PathLike[str] | None) -> Path:
    """A path that this process can rename files in.

    Raises:
        UsageError: It is none.
    """
    if path is None or path == "":
        raise UsageError("path is missing", hint="say where to save, the same on all workers")
    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"path is {path!r}", hint="give a path as text")
    text = os.fspath(path)
    if "://" in text:
        raise UsageError(
            f"path is {text!r}, where nothing can be renamed at once",
            hint="give a path of a file system that is mounted on this machine",
        )
    if not Path(text).name or Path(text).name == "..":
        raise UsageError(f"path is {text!r}, which has no name", hint="name the file or folder")
    return Path(text)


def _refuse_others(options: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """A checkpoint's own options are taken: they say what to do when it is written."""
    if unknown := sorted(set(options) - set(known)):
        raise UsageError(
            f"{', '.join(unknown)} cannot be given for this checkpoint",
            hint=f"give nothing but {', '.join(known)}" if known else "leave it out",
        )
