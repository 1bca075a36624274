"""Keras' EarlyStopping, by the same value on all workers."""

from __future__ import annotations

from typing import Any

import keras

from tfdist_kit.adapters.checkpoint.saving import DEADLINE
from tfdist_kit.adapters.keras_callbacks.logs import agreed


class EarlyStopping(keras.callbacks.EarlyStopping):  # type: ignore[misc]  # Keras has no types
    """Stop training when a value has stopped improving, on all workers in the same epoch.

    Args:
        args: As for `keras.callbacks.EarlyStopping`.
        deadline: Seconds to wait, at the end of an epoch, for the last worker.
        kwargs: As for `keras.callbacks.EarlyStopping`.
    """

    def __init__(self, *args: Any, deadline: float = DEADLINE, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadline = deadline

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Decide by what all workers take the value to be."""
        super().on_epoch_end(epoch, agreed(self.model.distribute_strategy, logs, self._deadline))
