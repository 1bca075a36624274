"""TensorFlow's PreemptionCheckpointHandler: whatever notice comes, the training goes on later.

preemption_checkpoint_handler -> checks -> TensorFlow's own class, restored -> run ... run
a notice on any worker -> all agree on a step -> all save -> all leave with a code that stays
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tfdist_kit import _lazy

if TYPE_CHECKING:
    from tfdist_kit.adapters.preemption_checkpoint.early import watch_preemption
    from tfdist_kit.adapters.preemption_checkpoint.handler import PreemptionCheckpointHandler
    from tfdist_kit.adapters.preemption_checkpoint.termination import Termination

__all__ = [
    "PreemptionCheckpointHandler",
    "Termination",
    "preemption_checkpoint_handler",
    "watch_preemption",
]


def preemption_checkpoint_handler(
    strategy: Any,
    checkpoint_or_manager: Any,
    checkpoint_dir: str | os.PathLike[str] | None = None,
    termination: Any = None,
    *,
    per_worker: Any = None,
) -> Any:
    """Make TensorFlow's own PreemptionCheckpointHandler, of which no notice and no save is lost.

    Every worker makes it, once, in its main thread, after the strategy. It restores the latest
    checkpoint at once. Give `run` each step of the training, and call `finish_training` after the
    last one.

    A `TPUStrategy` is served by TensorFlow's class itself.

    Args:
        strategy: A `MultiWorkerMirroredStrategy`, or any that trains in one process.
        checkpoint_or_manager: A `tf.train.Checkpoint`, or a `tf.train.CheckpointManager`, which
            all workers may make alike: only the chief's is written to.
        checkpoint_dir: For a Checkpoint: a folder that all workers share, and only this job uses.
        termination: A `Termination`, or TensorFlow's TerminationConfig; None for SIGTERM.
        per_worker: A `tf.train.Checkpoint` of what is each worker's own, such as its dataset's
            iterator: saved and restored with the shared one.

    Returns:
        The handler, an instance of TensorFlow's class.

    Raises:
        UsageError: It could not work: an argument, the folder, this task, this thread, or a
            second handler. On every worker alike, where it concerns them all.
        CheckpointError: Some worker did not make its handler.
        UnsupportedVersionError: TensorFlow's internals are not as expected.

    Source: https://www.tensorflow.org/api_docs/python/tf/distribute/experimental/PreemptionCheckpointHandler
    """
    from tfdist_kit.adapters.preemption_checkpoint.handler import (
        PreemptionCheckpointHandler,
        on_tpu,
    )

    if on_tpu(strategy):
        stock = PreemptionCheckpointHandler.__base__
        return stock(strategy.cluster_resolver, checkpoint_or_manager, checkpoint_dir, termination)
    return PreemptionCheckpointHandler(
        strategy, checkpoint_or_manager, checkpoint_dir, termination, per_worker
    )


__getattr__ = _lazy.looked_up(
    __name__,
    {
        "PreemptionCheckpointHandler": f"{__name__}.handler",
        "Termination": f"{__name__}.termination",
        "watch_preemption": f"{__name__}.early",
    },
)
