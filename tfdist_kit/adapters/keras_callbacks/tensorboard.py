"""Keras' TensorBoard, whose files do not mix."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from typing import Any

import keras

from tfdist_kit.adapters._meeting import group_of


class TensorBoard(keras.callbacks.TensorBoard):  # type: ignore[misc]  # Keras has no types
    """Write logs for TensorBoard: the chief's, which are those of all, or each worker's own.

    Every worker has this callback, with the same arguments. With ``per_worker=False`` the others
    write to temp folders that are removed: a histogram may read a variable that needs them all.

    Args:
        log_dir: As for `keras.callbacks.TensorBoard`.
        args: As there.
        per_worker: Whether each worker writes to a folder of its own in `log_dir`, ``worker-0``
            and so on; for profiles, and for summaries of what is each worker's own.
        kwargs: As there.
    """

    def __init__(
        self, log_dir: Any = "logs", *args: Any, per_worker: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(log_dir, *args, **kwargs)
        self._per_worker = per_worker
        self._shared = str(log_dir)
        self._discard: Callable[[], object] = lambda: None

    def set_model(self, model: Any) -> None:
        """Find out where this worker writes."""
        group = group_of(model.distribute_strategy)
        self.log_dir: str = self._shared
        if len(group.tasks) > 1 and self._per_worker:
            self.log_dir = os.path.join(self._shared, group.task.replace(":", "-"))
        elif not group.is_chief:
            self.log_dir = tempfile.mkdtemp(prefix="tfdist-logs-")
            self._discard = weakref.finalize(self, shutil.rmtree, self.log_dir, ignore_errors=True)
        super().set_model(model)

    def on_train_end(self, logs: Any = None) -> None:
        """Close the files; remove those that nobody reads."""
        super().on_train_end(logs)
        self._discard()
