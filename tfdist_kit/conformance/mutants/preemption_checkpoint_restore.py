"""Ways to break what is restored, and what is saved."""

from __future__ import annotations

import os
from typing import Any

from tfdist_kit.conformance.marks import Patch, mutant
from tfdist_kit.conformance.mutants._preemption import (
    after,
    before,
    instead,
    module,
    restoring,
    unsaved,
)


@mutant("preempt.restore.newest", name="nothing-is-restored")
def _(patch: Patch) -> None:
    restoring(patch, lambda manager: None)


@mutant("preempt.restore.nothing-there", name="empty-folder-is-refused")
def _(patch: Patch) -> None:
    def newest(manager: Any) -> str:
        if manager.latest_checkpoint is None:
            raise FileNotFoundError("there is no checkpoint")
        return str(manager.latest_checkpoint)

    restoring(patch, newest)


def _own(manager: Any) -> str | None:
    """The newest checkpoint, if its name is one that the handler gives."""
    path = manager.latest_checkpoint
    return path if path and os.path.basename(path).startswith("ckpt-") else None


def _first(manager: Any) -> str | None:
    import tensorflow as tf

    found = sorted(tf.io.gfile.glob(f"{manager.directory}/*.index"))
    return str(found[0]).removesuffix(".index") if found else None


@mutant("preempt.restore.saved-by-user", name="users-checkpoints-are-passed-over")
def _(patch: Patch) -> None:
    restoring(patch, _own)


@mutant("preempt.restore.newest-whoever-saved", name="oldest-is-restored")
def _(patch: Patch) -> None:
    restoring(patch, _first)


@mutant("preempt.platform.own-periodic-saves", name="only-own-checkpoints-after-a-kill")
def _(patch: Patch) -> None:
    restoring(patch, _own)


@mutant("preempt.restore.keras-3", name="keras-3-optimizer-is-left-out")
def _(patch: Patch) -> None:
    unsaved(patch, "optimizer")


@mutant("preempt.restore.keras-2", name="keras-2-optimizer-is-left-out")
def _(patch: Patch) -> None:
    unsaved(patch, "optimizer")


@mutant("preempt.restore.same-place-for-all", name="workers-restore-from-their-own-folders")
def _(patch: Patch) -> None:
    def swap(self: Any) -> None:
        self._read_checkpoint_manager = self._write_checkpoint_manager

    after(patch, "_maybe_create_checkpoint_manager", swap)


@mutant("preempt.saving.chief-only", name="own-folders-are-left")
def _(patch: Patch) -> None:
    patch(module().gfile, "DeleteRecursively", lambda found: lambda path: None)


@mutant("preempt.saving.same-weights", name="weights-are-left-out")
def _(patch: Patch) -> None:
    unsaved(patch, "weight")


@mutant("preempt.saving.on-read-variables", name="on-read-variables-are-saved-unsummed")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import values

    patch(
        values.SyncOnReadVariable,
        "_get_cross_replica",
        lambda found: lambda self: self._get_replica(0),
    )


def _late(found: Any, self: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
    """Looks for a notice after the step."""
    result = function(*args, **kwargs)
    self._check_preemption_and_maybe_checkpoint()
    self._run_counter += 1
    return result


@mutant("preempt.saving.counters-agree", name="saves-between-step-and-counter")
def _(patch: Patch) -> None:
    instead(patch, "_run_for_multi_worker_mirrored", _late)


@mutant("preempt.saving.manager-as-given", name="manager-is-replaced")
def _(patch: Patch) -> None:
    import tensorflow as tf

    def replace(self: Any) -> None:
        given = self._write_checkpoint_manager
        made = tf.train.CheckpointManager(given._checkpoint, given.directory, max_to_keep=1)
        self._write_checkpoint_manager = self._read_checkpoint_manager = made

    after(patch, "_maybe_create_checkpoint_manager", replace)


@mutant("preempt.run.iterator-read-within", name="iterators-are-left-out")
def _(patch: Patch) -> None:
    unsaved(patch, "batches")


@mutant("preempt.platform.without-notice", name="every-step-is-saved")
def _(patch: Patch) -> None:
    def save(self: Any, *_: Any, **__: Any) -> None:
        self._write_checkpoint_manager.save()

    before(patch, "_run_for_multi_worker_mirrored", save)
