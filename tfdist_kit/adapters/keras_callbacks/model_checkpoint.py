"""Keras' ModelCheckpoint, of which all workers together write one file."""

from __future__ import annotations

from typing import Any

import keras

from tfdist_kit.adapters.checkpoint import save
from tfdist_kit.adapters.checkpoint.saving import DEADLINE
from tfdist_kit.adapters.keras_callbacks.guard import require
from tfdist_kit.adapters.keras_callbacks.logs import agreed


class ModelCheckpoint(keras.callbacks.ModelCheckpoint):  # type: ignore[misc]  # Keras has no types
    """Save the model or its weights now and then, once for all workers.

    Every worker has this callback, with the same arguments. Which epoch is the best is decided by
    what all workers take the monitored value to be, and so are values in the file's name.

    Args:
        args: As for `keras.callbacks.ModelCheckpoint`.
        deadline: Seconds to wait, at each save, for the last worker.
        kwargs: As for `keras.callbacks.ModelCheckpoint`.

    Raises:
        UnsupportedVersionError: Keras' internals are not as expected.
    """

    def __init__(self, *args: Any, deadline: float = DEADLINE, **kwargs: Any) -> None:
        for name in ("_save_model", "_should_save_model", "_get_file_path"):
            require(keras.callbacks.ModelCheckpoint, name)
        super().__init__(*args, **kwargs)
        self._deadline = deadline

    def _save_model(self, epoch: int, batch: int | None, logs: Any) -> None:
        strategy = self.model.distribute_strategy
        if self.save_best_only or "{" in self.filepath:
            logs = agreed(strategy, logs, self._deadline)
        path = self._get_file_path(epoch, batch, logs)
        if self._should_save_model(epoch, batch, logs, path):
            save(strategy, self.model, path, deadline=self._deadline)
