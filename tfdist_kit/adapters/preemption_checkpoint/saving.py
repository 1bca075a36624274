"""How all workers save together: nobody begins alone, and nobody goes before all is written.

each worker's own state -> all have written it -> the shared checkpoint -> all have written
"""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections.abc import Callable

import tensorflow as tf

from tfdist_kit._errors import CheckpointError
from tfdist_kit.adapters.preemption_checkpoint import folders
from tfdist_kit.adapters.preemption_checkpoint.own_state import OwnState
from tfdist_kit.adapters.preemption_checkpoint.team import Team, reason_of

_CALLS = "call run(), save() or finish_training()"


class Saving:
    """The saves of one handler.

    Args:
        team: The workers.
        folder: Where the checkpoints are.
        own: What each worker saves for itself.
        seconds: How long the workers wait for each other.
    """

    def __init__(self, team: Team, folder: str, own: OwnState, seconds: float) -> None:
        self._team = team
        self._folder = folder
        self._own = own
        self._seconds = seconds
        self._numbers = itertools.count()
        self.slowest = 0.0
        """How many seconds the last save took the slowest worker."""

    def save(self, runs: int, write: Callable[[], None]) -> None:
        """Save once.

        Args:
            runs: How many runs the training stands at.
            write: Writes what all share, or what nobody reads.

        Raises:
            CheckpointError: Some worker did not come, or could not write.
        """
        number = next(self._numbers)
        self.slowest = 0.0
        self._refuse_unsaved(self._all(f"save/{number}", lambda: self._own.write(runs)))
        # Only now: what all share is worth nothing where some worker's own part is missing.
        troubles = self._all(f"saved/{number}", write)
        self._team.let_chief_go_last(f"saved/{number}")
        self._tidy()
        self._refuse_unsaved(troubles)

    def _all(self, what: str, write: Callable[[], None]) -> tuple[str, ...]:
        """Write, and wait until every worker has; what went wrong, by rank."""
        told = json.dumps(_written(write))
        answers = self._team.exchange(what, told, self._seconds, _CALLS)
        took, troubles = zip(*map(json.loads, answers), strict=True)
        self.slowest += max(took)
        return tuple(troubles)

    def _tidy(self) -> None:
        with contextlib.suppress(tf.errors.OpError):
            state = tf.train.get_checkpoint_state(self._folder)
            self._own.tidy(state.all_model_checkpoint_paths if state else ())
        if not self._team.is_chief:
            with contextlib.suppress(tf.errors.OpError):
                folders.remove(folders.private_folder(self._folder, self._team.name))

    def _refuse_unsaved(self, troubles: tuple[str, ...]) -> None:
        for name, trouble in zip(self._team.names, troubles, strict=True):
            if trouble:
                raise CheckpointError(
                    f"{name} could not save to {self._folder}: {trouble}",
                    hint="the checkpoint before it is whole, and is restored at the next start; "
                    "see to the space and the rights in that folder",
                    tasks=(name,),
                )


def _written(write: Callable[[], None]) -> tuple[float, str]:
    """How many seconds it took, and what went wrong."""
    began = time.monotonic()
    trouble = ""
    try:
        write()
    except Exception as error:
        trouble = f"{type(error).__name__}: {reason_of(error)}"
    return time.monotonic() - began, trouble
