"""Where each worker writes: the chief into the checkpoint's folder, the others beside it.

TensorFlow lets the others write into ``workertemp_<task id>`` in the *parent* of that folder, which
all jobs beside each other share. Here it is a folder within, so that no job can remove another's.
What a killed process left behind is removed by the next one: its own folder by each worker, the
rest by the chief.
"""

from __future__ import annotations

import os
import re

import tensorflow as tf

from tfdist_kit.adapters.preemption_checkpoint.team import Team

_PRIVATE = "workertemp_"
_LEFT_BEHIND = re.compile(r"-\d+_temp$|^probe_[0-9a-f]{32}$")
"""A save that was cut short, and what `checks` writes to see whether it can."""


def private_folder(checkpoint_dir: str, name: str) -> str:
    """Where a worker that is not the chief writes what nobody reads."""
    return os.path.join(checkpoint_dir, _PRIVATE + name.replace(":", "_").replace(" ", "_"))


def remove(folder: str) -> None:
    """Remove a folder with all that is in it, if it is there."""
    if tf.io.gfile.exists(folder):
        tf.io.gfile.rmtree(folder)


def sweep(checkpoint_dir: str, team: Team) -> None:
    """Remove what killed processes of this job left behind."""
    remove(private_folder(checkpoint_dir, team.name))
    if not team.is_chief or not tf.io.gfile.isdir(checkpoint_dir):
        return
    living = {os.path.basename(private_folder(checkpoint_dir, name)) for name in team.names}
    for name in tf.io.gfile.listdir(checkpoint_dir):
        name = name.rstrip("/")
        is_private = name.startswith(_PRIVATE) and name not in living
        if is_private or _LEFT_BEHIND.search(name):
            remove(os.path.join(checkpoint_dir, name))
