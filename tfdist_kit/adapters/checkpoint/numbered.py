"""A checkpoint of TensorFlow's, which TensorFlow numbers, writes and records."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfdist_kit.adapters._private import private
from tfdist_kit.adapters.checkpoint.staging import Gate, Staging, private_target, recover, sync

_MANAGEMENT, _MANAGER = "tensorflow.python.checkpoint.checkpoint_management", "CheckpointManager"


@dataclass
class Numbered:
    """A checkpoint with a number in its name, and the file ``checkpoint`` that names the newest.

    Args:
        checkpoint: What is saved.
        where: The manager's folder, or folder and name of a checkpoint without its number.
        manager: Who keeps some and deletes the others; None for a bare checkpoint.
        options: Arguments of the ``save`` of either.
    """

    checkpoint: Any
    where: Path
    manager: Any
    options: Mapping[str, Any]
    _staging: Staging | None = None
    _last_step: Any = None

    @property
    def told(self) -> str:
        """What is saved and where."""
        return str(self.where)

    @property
    def _folder(self) -> Path:
        return self.where if self.manager is not None else self.where.parent

    def prepare(self, *, is_chief: bool) -> bool:
        """Make the folder; the chief asks the manager whether it is time to save."""
        if not is_chief:
            own = private_target()
            recover(own)
            self._staging = Staging(own)
            return True
        self._folder.mkdir(parents=True, exist_ok=True)
        probe = self._folder.absolute() / "probe"
        recover(probe)
        Staging(probe).remove()  # can it be written to?
        self._sweep()
        return self._is_due()

    def _is_due(self) -> bool:
        """What `CheckpointManager.save` decides by itself, too late for the others to know."""
        if self.manager is None or self.manager.checkpoint_interval is None:
            return True
        private(_MANAGEMENT, _MANAGER)
        step, last = int(self.manager._step_counter), self.manager._last_checkpoint_step
        self._last_step = last
        soonest = (
            self.manager.checkpoint_interval if self.options.get("check_interval", True) else 1
        )
        return last is None or bool(step != last and step >= last + soonest)

    def publish(self, gate: Gate) -> str:
        """Have TensorFlow write and, after the meeting, record it."""
        import tensorflow as tf

        written: list[str] = []

        def visible_next(path: str) -> None:
            written.append(path)
            for each in _files(path):
                sync(each)
            sync(self._folder)
            gate()

        mine = tf.train.CheckpointOptions(experimental_write_callbacks=[visible_next])
        try:
            if self.manager is not None:
                path = self.manager.save(**{**self.options, "options": mine})
            else:
                path = self.checkpoint.save(str(self.where), options=mine)
        except BaseException:
            self._take_back(written)
            raise
        sync(self._folder)
        return str(path)

    def _take_back(self, written: list[str]) -> None:
        for each in [file for path in written for file in _files(path)]:
            each.unlink(missing_ok=True)
        if self.manager is not None and self.manager.checkpoint_interval is not None:
            self.manager._last_checkpoint_step = self._last_step
        self._sweep()

    def take_part(self, gate: Gate) -> None:
        """Count and write as the chief does, to a temp folder, and meet."""
        assert self._staging is not None
        self.checkpoint.save_counter.assign_add(1)
        self.checkpoint.write(str(self._staging.path))
        gate()

    def clean_up(self) -> None:
        """Remove this worker's own copy."""
        if self._staging is not None:
            self._staging.remove()

    def _sweep(self) -> None:
        """Remove the parts of checkpoints whose writer was killed."""
        name = r".+" if self.manager is not None else re.escape(self.where.name)
        for part in self._folder.glob("*_temp*"):
            if re.fullmatch(rf"{name}-\d+_temp\w*", part.name):
                shutil.rmtree(part, ignore_errors=True)


def _files(path: str) -> list[Path]:
    """The files of one checkpoint, the index last."""
    prefix = Path(path)
    parts = sorted(prefix.parent.glob(f"{prefix.name}.data-?????-of-?????"))
    return [*parts, *(each for each in [prefix.with_name(f"{prefix.name}.index")] if each.exists())]
