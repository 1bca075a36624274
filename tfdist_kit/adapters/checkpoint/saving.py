"""One save that every worker makes, of which one file, folder or checkpoint remains.

    every worker: a place to write -> all write, for the sake of the collectives -> all are done?
        -> the chief's becomes visible at once -> all return

Variables that each replica has its own of (``VariableSynchronization.ON_READ``) are added up or
averaged by a collective when they are read, so all workers have to read them. Only the chief's
copy is kept; those of the others go to temp folders and are removed.
"""

from __future__ import annotations

import os
from typing import Any

from tfdist_kit._errors import UsageError
from tfdist_kit.adapters._meeting import Group, group_of
from tfdist_kit.adapters._together import Together
from tfdist_kit.adapters.checkpoint.jobs import Job, job_for

DEADLINE = 600.0


def save(
    strategy: Any,
    target: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    deadline: float = DEADLINE,
    **options: Any,
) -> str | None:
    """Save something once, from all workers; every worker makes this call, with the same path.

    No worker returns before what was saved is visible under its name, whole. Should the save
    fail on any worker, it fails on all of them with the same error, and what was there before is
    still there.

    Args:
        strategy: The strategy; any other than a MultiWorkerMirroredStrategy saves alone, and so
            does None.
        target: What to save:
            a `tf.train.CheckpointManager`, by its `save`;
            a `tf.train.Checkpoint`, by its `save`: numbered, and found by
            `tf.train.latest_checkpoint`;
            a Keras model, whole (``.keras``), its weights (``.weights.h5``), or as a SavedModel
            (a path without an end), which `model.export` writes;
            any other trackable object, as a SavedModel by `tf.saved_model.save`;
            a function, which is called with a path to write a file or a folder to.
        path: Where to save; left out for a manager, without its number for a checkpoint. Folders
            on the way are made. A file or folder that is there is replaced.
        deadline: Seconds to wait, at each stage, for the last worker to come to it.
        **options: Passed on to what saves, for example ``check_interval`` for a manager, or
            ``signatures`` for a SavedModel.

    Returns:
        Where it is; a checkpoint's path with its number. None when the manager's interval has
        not passed, by the chief's count.

    Raises:
        UsageError: It cannot be saved there; raised before anything is written.
        CheckpointError: Some worker could not write its part, or did not make this call within
            `deadline`; names it.
        tf.errors.UnavailableError: A worker has died.

    Source: https://www.tensorflow.org/tutorials/distribute/multi_worker_with_keras#model_saving
    """
    require_eager()
    require_strategy(strategy)
    group = group_of(strategy)
    try:
        job = job_for(target, path, options)
    except UsageError as error:  # told to the others, who wait for this worker
        Together(group, deadline=deadline, doing="saved", what=str(path)).fail(error)
    together = Together(group, deadline=deadline, doing="saved", what=job.told)
    try:
        return _save(job, group, together)
    finally:
        job.clean_up()


def require_eager() -> None:
    """Refuse graph mode.

    Raises:
        UsageError: It is on.
    """
    import tensorflow as tf

    if not tf.executing_eagerly():
        raise UsageError(
            "save and restore were called in graph mode, or inside a tf.function",
            hint="call them eagerly; in graph mode use tf.compat.v1.train.Saver",
        )


def require_strategy(strategy: Any) -> None:
    """Refuse what is none: each worker would save alone, all to the same path.

    Raises:
        UsageError: It is none.
    """
    import tensorflow as tf

    strategies = (tf.distribute.Strategy, tf.compat.v1.distribute.Strategy)
    if strategy is not None and not isinstance(strategy, strategies):
        raise UsageError(
            f"strategy is {type(strategy).__name__}",
            hint="give the strategy with which the variables were made, or None",
        )


def _save(job: Job, group: Group, together: Together) -> str | None:
    due = together.stage(lambda: job.prepare(is_chief=group.is_chief), is_usage=True)
    if not due[group.chief]:
        return None
    saved = None

    def gate() -> None:
        together.agree(None)

    try:
        if group.is_chief:
            saved = job.publish(gate)
        else:
            job.take_part(gate)
        job.clean_up()  # before the others can go on
    except Exception as error:
        if together.is_over:
            raise
        together.fail(error)
    return together.agree(saved)[group.chief]
