"""What is each worker's own, such as the position of its data, saved along with what all share.

Only the chief writes the shared checkpoint, and every worker restores from that. A dataset's
iterator differs from worker to worker, though: each writes its own, named after the number of runs
that the shared checkpoint stands at, before that one is published. A shared checkpoint is therefore
never without its companions.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from tfdist_kit._errors import UsageError
from tfdist_kit.adapters.preemption_checkpoint import folders

COUNTER_KEY = "checkpointed_runs/.ATTRIBUTES/VARIABLE_VALUE"


class OwnState:
    """What one worker saves for itself alone.

    Args:
        checkpoint: A `tf.train.Checkpoint` of it; None if there is nothing.
        folder: The shared checkpoint's folder.
        name: This worker's task.
    """

    def __init__(self, checkpoint: Any, folder: str, name: str) -> None:
        self._checkpoint = checkpoint
        self._folder = os.path.join(folder, "per_worker", name.replace(":", "_"))

    def write(self, runs: int) -> None:
        """Write it for the shared checkpoint that is about to be written."""
        if self._checkpoint is not None:
            tf.io.gfile.makedirs(self._folder)
            self._checkpoint.write(self._path(runs))

    def read(self, runs: int) -> None:
        """Read what belongs to the shared checkpoint that was restored.

        Raises:
            UsageError: It is not there.
        """
        if self._checkpoint is None:
            return
        if not tf.io.gfile.exists(self._path(runs) + ".index"):
            raise UsageError(
                f"the checkpoint stands at run {runs}, but this worker has no state of its own "
                f"for it: {self._path(runs)}",
                hint="per_worker= must be given from the first run on, and the number of workers "
                "must stay the same; key the data by the step if it may change",
            )
        self._checkpoint.read(self._path(runs))

    def tidy(self, checkpoints: Iterable[str]) -> None:
        """Remove what belongs to no shared checkpoint any more, and what a killed process left."""
        if self._checkpoint is None:
            return
        kept = {_runs_of(path) for path in checkpoints}
        for file in tf.io.gfile.listdir(self._folder):
            if file.rstrip("/").endswith("_temp"):  # nobody else writes here, nor do we now
                folders.remove(os.path.join(self._folder, file))
            found = re.match(r"at-(\d+)\.", file)
            if found and int(found[1]) not in kept:
                tf.io.gfile.remove(os.path.join(self._folder, file))

    def _path(self, runs: int) -> str:
        return os.path.join(self._folder, f"at-{runs}")


def _runs_of(checkpoint: str) -> int:
    return int(tf.train.load_variable(checkpoint, COUNTER_KEY))
