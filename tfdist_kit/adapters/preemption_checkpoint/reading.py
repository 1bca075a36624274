"""How all workers restore the same checkpoint, and one that fits.

TensorFlow lets each worker look for the latest checkpoint itself: on a network file system one may
still see an older one. And where no name fits, it restores nothing without a word.
"""

from __future__ import annotations

import logging
import os
from typing import Any

import tensorflow as tf

from tfdist_kit._errors import UsageError
from tfdist_kit.adapters.preemption_checkpoint.own_state import OwnState
from tfdist_kit.adapters.preemption_checkpoint.team import Team

_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_OWN = {"save_counter", "checkpointed_runs"}
_log = logging.getLogger(__name__)


class Reading:
    """A `tf.train.CheckpointManager` from which all workers restore the same.

    Args:
        manager: The real one; everything else is passed on to it.
        team: The workers.
        own: What this worker has saved for itself alone.
        seconds: How long they wait for each other.
    """

    def __init__(self, manager: Any, team: Team, own: OwnState, seconds: float) -> None:
        self._manager = manager
        self._team = team
        self._own = own
        self._seconds = seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)

    def restore_or_initialize(self) -> str | None:
        """Restore what the chief holds for the latest.

        Returns:
            Its path; None if there is none.

        Raises:
            UsageError: It has nothing in common with what is to be restored.
            CheckpointError: Some worker could not read it.
        """
        mine = os.path.basename(self._manager.latest_checkpoint or "")
        call = "call preemption_checkpoint_handler()"
        chosen = self._team.exchange("latest", mine, self._seconds, call)[0]
        if not chosen:
            initialised: str | None = self._manager.restore_or_initialize()
            return initialised
        path = os.path.join(self._manager.directory, chosen)
        self._team.together("restored", lambda: self._restore(path), self._seconds, call)
        return path

    def _restore(self, path: str) -> None:
        checkpoint = self._manager.checkpoint
        _check_names(checkpoint, path)
        checkpoint.restore(path)
        self._own.read(int(checkpoint.checkpointed_runs.numpy()))


def _check_names(checkpoint: Any, path: str) -> None:
    saved = _names_in(path) - _OWN
    wanted = {
        name
        for name, value in vars(checkpoint).items()
        if not name.startswith("_") and name not in _OWN and _is_tracked(value)
    }
    if wanted and saved and not wanted & saved:
        raise UsageError(
            f"the checkpoint {path} has {_listed(saved)}, and nothing of {_listed(wanted)}",
            hint="use the names under which it was saved in tf.train.Checkpoint(...), or another "
            "checkpoint_dir",
        )
    if wanted - saved:
        _log.warning("%s has nothing for %s", path, _listed(wanted - saved))


def _names_in(path: str) -> set[str]:
    """Under which names the checkpoint has something; keys of variables tell only one of them."""
    from tensorflow.core.protobuf import trackable_object_graph_pb2

    keys = {name.split("/")[0] for name, _ in tf.train.list_variables(path)}
    if _GRAPH not in keys:
        return keys
    graph = trackable_object_graph_pb2.TrackableObjectGraph()
    graph.ParseFromString(tf.train.load_variable(path, _GRAPH))
    return {child.local_name for child in graph.nodes[0].children}


def _is_tracked(value: Any) -> bool:
    return isinstance(value, (tf.Variable, tf.Module)) or hasattr(value, "_trackable_children")


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names))
