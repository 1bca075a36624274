"""Keras' BackupAndRestore, which goes on at the very batch, on all workers.

    fit begins: all workers restore the newest backup -> the data goes on to where it was
    every epoch or so many batches, or at a notice: all workers save a backup
    fit ends: the backup goes

A backup is a `tf.train.Checkpoint` of all variables: weights, the optimizer's, random seeds, and
those of the metrics, so that the interrupted epoch's logs are whole, too.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from typing import Any

import keras

from tfdist_kit._errors import CheckpointError, UsageError
from tfdist_kit.adapters._meeting import group_of
from tfdist_kit.adapters._together import Together
from tfdist_kit.adapters.checkpoint import restore, save
from tfdist_kit.adapters.checkpoint.restoring import build_optimizer
from tfdist_kit.adapters.checkpoint.saving import DEADLINE
from tfdist_kit.adapters.keras_callbacks.data_position import DataPosition
from tfdist_kit.adapters.keras_callbacks.guard import require
from tfdist_kit.adapters.keras_callbacks.logs import is_number
from tfdist_kit.adapters.preemption_checkpoint import preemption_checkpoint_handler

_NOTHING = -1
_open: list[Any] = []
"""The handler of the last `fit`: a process can have one only."""


class BackupAndRestore(keras.callbacks.BackupAndRestore):  # type: ignore[misc]  # no types
    """Go on with an interrupted `fit` where it was: same weights, same batch, same data.

    Every worker has this callback, with the same arguments. The model must be built. With data
    whose order depends on the steps alone (seeded, or not shuffled), training ends with the
    weights of a run that was never interrupted, to the last bit.

    Args:
        backup_dir: Folder of this training's backups, which all workers see; nothing else may be
            in it.
        save_freq: ``"epoch"``, or a number of batches; False for no periodic backup, with
            `save_before_preemption` only.
        double_checkpoint: Whether the backup before the newest is kept as well, and taken when
            the newest cannot be read.
        delete_checkpoint: Whether the backup is removed when `fit` has come to its end.
        save_before_preemption: Whether a notice, on any worker, has all workers save after the
            batch that they are at, and leave with a code for which they are started again: see
            `tfdist_kit.preemption_checkpoint_handler`, which this makes and closes.
        termination: What counts as a notice, and how they leave; a
            `tfdist_kit.adapters.preemption_checkpoint.Termination`. None for SIGTERM.
        deadline: Seconds to wait, at each backup, for the last worker.

    Raises:
        UsageError: An argument is wrong.

    Source: https://keras.io/api/callbacks/backup_and_restore
    """

    def __init__(
        self,
        backup_dir: str | os.PathLike[str],
        save_freq: str | int = "epoch",
        double_checkpoint: bool = False,
        delete_checkpoint: bool = True,
        *,
        save_before_preemption: bool = False,
        termination: Any = None,
        deadline: float = DEADLINE,
    ) -> None:
        is_count = isinstance(save_freq, int) and save_freq > 0
        is_never = save_freq is False and save_before_preemption
        if save_freq != "epoch" and not is_count and not is_never:
            raise UsageError(
                f"save_freq is {save_freq!r}",
                hint='give "epoch" or a number of batches; False with save_before_preemption=True',
            )
        if termination is not None and not save_before_preemption:
            raise UsageError(
                "termination was given, but no notice is waited for",
                hint="give save_before_preemption=True as well",
            )
        super().__init__(os.fspath(backup_dir), save_freq, double_checkpoint, delete_checkpoint)
        self._watches, self._termination = save_before_preemption, termination
        self._handler: Any = None
        self._deadline = deadline
        self._epoch = self._batch = self._unsaved = 0
        self._data: DataPosition | None = None
        self._logs: dict[str, Any] = {}

    @property
    def _strategy(self) -> Any:
        return self.model.distribute_strategy

    # When Keras calls

    def on_train_begin(self, logs: Any = None) -> None:
        """Restore the newest backup, if there is one."""
        import tensorflow as tf

        if not self.model.built:
            raise UsageError(
                "the model is not built, so there is nothing to restore into",
                hint="begin it with keras.Input, or call it on a batch of data before fit",
            )
        require(self.model, "_initial_epoch")
        self._data = DataPosition(self.model)
        self._build()
        self._epoch = self._batch = self._unsaved = 0
        self._position = tf.Variable([_NOTHING, 0], dtype=tf.int64, trainable=False)
        self._metrics = _variables(self.model.metrics_variables)
        optimizer = self.model.optimizer
        self._checkpoint = tf.train.Checkpoint(
            position=self._position,
            model=_variables(self.model.variables),
            optimizer=_variables(optimizer.variables if optimizer is not None else ()),
            metrics=self._metrics,
        )
        keep = 2 if self.double_checkpoint else 1
        self._manager = tf.train.CheckpointManager(self._checkpoint, self.backup_dir, keep)
        self._restore()
        if int(self._position[0]) == _NOTHING:
            self._data = None
        else:
            self._epoch, self._batch = (int(number) for number in self._position.numpy())
            self._restored_metrics = [metric.numpy() for metric in self._metrics]
            self.model._initial_epoch = self._epoch

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """In the first epoch of a resumed training, bring data and metrics to where they were."""
        if self._data is None:
            self._batch = 0
        else:
            self._data.advance(epoch - self._data.first_epoch, self._batch)
            if self._batch:  # Keras has just reset them
                for metric, value in zip(self._metrics, self._restored_metrics, strict=True):
                    metric.assign(value)
                self._logs = self.model.get_metrics_result()
        self._data = None
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Save, if it is time to."""
        self._logs = {}
        self._unsaved += batch + 1 - self._batch
        self._batch = batch + 1
        is_due = self.save_freq not in ("epoch", False) and self._unsaved >= self.save_freq
        self._save_or_leave(is_due)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Save, if it is time to."""
        for name, value in self._logs.items():  # nothing but this was left to do in this epoch
            if logs is not None and is_number(value):
                logs.setdefault(name, float(value))
        self._logs = {}
        self._epoch, self._batch = epoch + 1, 0
        self._save_or_leave(self.save_freq == "epoch")

    def on_train_end(self, logs: Any = None) -> None:
        """Remove the backup; if it stays, save what is to be evaluated or exported by and by."""
        self.model._initial_epoch = 0
        if not self.delete_checkpoint:
            if self._handler is not None:
                self._handler.finish_training()
            return
        while _open:
            _open.pop().close()
        self._handler = None
        group = group_of(self._strategy)
        together = Together(
            group, deadline=self._deadline, doing="removed", what=str(self.backup_dir)
        )
        together.agree(None)  # nobody is at it any more
        together.stage(lambda: _remove(self.backup_dir) if group.is_chief else None)

    # What this class does then

    def _build(self) -> None:
        """Make the variables that Keras may put off until the first batch."""
        metrics = require(self.model, "_compile_metrics")
        if metrics is not None and not metrics.built and self._data is not None:
            require(self.model, "_symbolic_build")(data_batch=self._data.batch)
        build_optimizer(self._strategy, self.model)

    def _save_or_leave(self, is_due: bool) -> None:
        """Save if it is time to; and if there was a notice, save and leave."""
        if is_due or self._handler is not None:
            self._position.assign([self._epoch, self._batch])
        if is_due:
            self._unsaved = 0
            if self._handler is not None:
                self._handler.save()
            else:
                save(self._strategy, self._manager, deadline=self._deadline)
        if self._handler is not None:
            self._handler.save_checkpoint_if_preempted()

    def _restore(self) -> None:
        """Restore the newest backup, if there is one; the handler does that by itself."""
        while _open:
            _open.pop().close()
        if self._watches:
            self._handler = preemption_checkpoint_handler(
                self._strategy, self._manager, termination=self._termination
            )
            _open.append(self._handler)
        else:
            self._restore_what_can_be_read()

    def _restore_what_can_be_read(self) -> None:
        """Restore the newest backup that can be read; the same on all workers."""
        group = group_of(self._strategy)
        together = Together(
            group, deadline=self._deadline, doing="found", what=str(self.backup_dir)
        )
        found = together.agree(list(self._manager.checkpoints))[group.chief]
        trouble: CheckpointError | None = None
        for path in reversed(found):
            try:
                restore(self._strategy, self._checkpoint, path, deadline=self._deadline)
                return
            except CheckpointError as error:
                trouble = trouble or error
        if trouble is not None:
            raise trouble


def _variables(of_keras: Iterable[Any]) -> list[Any]:
    """TensorFlow's variables behind those of Keras, each once."""
    found = {id(each.value): each.value for each in of_keras}
    return list(found.values())


def _remove(folder: str) -> None:
    if os.path.isdir(folder):
        shutil.rmtree(folder)
