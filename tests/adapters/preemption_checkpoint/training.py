"""Trainings that tests run in the workers of a `LocalCluster`; they deal themselves the blows.

A worker sends itself the signals of its plan at the step that the plan names, so that a test says
exactly what comes when. What `run` raises is caught and told; the process then stays for a moment,
as `LONG` is what `Termination` gives it to leave.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tfdist_kit._errors import text_of

LONG = 60.0


@dataclasses.dataclass
class Told:
    """What one worker tells of its training."""

    restored: int = -1
    step: int = -1
    runs: int = -1
    code: Any = None
    error: str = ""
    digest: str = ""
    facts: dict[str, Any] = dataclasses.field(default_factory=dict)


class Training:
    """A model of ten numbers, trained by a rule that sees the step and nothing else."""

    def __init__(self, *, collective: bool = True, stock: bool = False) -> None:
        import tensorflow as tf

        import tfdist_kit

        make = tf.distribute.MultiWorkerMirroredStrategy
        self.strategy = make() if stock else tfdist_kit.multi_worker_mirrored(keras=False)
        self.rank = int(os.environ.get("TFDIST_RANK", "0"))
        self.collective = collective
        with self.strategy.scope():
            self.weights = tf.Variable(tf.zeros([10]))
            self.slot = tf.Variable(tf.zeros([10]))
            self.step = tf.Variable(0, dtype=tf.int64)
        self.checkpoint = tf.train.Checkpoint(w=self.weights, slot=self.slot, step=self.step)
        self.train = tf.function(self._train)

    def _train(self, number: Any) -> None:
        import tensorflow as tf

        def one(number: Any) -> None:
            gradient = self.weights * 0.1 + tf.random.stateless_normal([10], [number, 7])
            if self.collective:
                context = tf.distribute.get_replica_context()
                gradient = context.all_reduce("mean", gradient)
                self.slot.assign(self.slot * 0.9 + gradient)
                self.weights.assign_sub(0.01 * self.slot)

        self.strategy.run(one, args=(number,))

    def handler(self, folder: Any, **termination: Any) -> Any:
        import tfdist_kit
        from tfdist_kit.adapters.preemption_checkpoint import Termination

        per_worker = termination.pop("per_worker", None)
        termination.setdefault("leave_within", LONG)
        termination.setdefault("meet_within", 20.0)
        return tfdist_kit.preemption_checkpoint_handler(
            self.strategy,
            self.checkpoint,
            folder,
            Termination(**termination),
            per_worker=per_worker,
        )

    def one_step(self) -> Any:
        import tensorflow as tf

        return self.train(tf.constant(self.step.numpy()))

    def digest(self) -> str:
        return hashlib.sha256(self.weights.numpy().tobytes()).hexdigest()


def send(signum: int = signal.SIGTERM) -> None:
    os.kill(os.getpid(), signum)


def told_by(act: Callable[[Told], object]) -> Told:
    """Run `act`, and tell what it raised."""
    told = Told()
    try:
        act(told)
    except SystemExit as leave:
        told.code = leave.code
    except Exception as error:
        told.error = f"{type(error).__name__}: {text_of(error)}"
    return told


def train(
    folder: str,
    blows: dict[int, list[tuple[int, int]]] | None = None,
    *,
    steps: int = 12,
    pause: dict[int, float] | None = None,
    collective: bool = True,
    own_loop: bool = False,
    finish: bool = True,
    **termination: Any,
) -> Told:
    """Train, and be told to go.

    Args:
        folder: Where the checkpoints are.
        blows: By rank, the steps in which a signal comes, and which.
        steps: How many.
        pause: Seconds in each step, by rank.
        collective: Whether a step has a collective.
        own_loop: Whether `save_checkpoint_if_preempted` is used instead of `run`.
        finish: Whether `finish_training` is called.
        termination: For `Termination`.
    """
    training = Training(collective=collective)

    def act(told: Told) -> None:
        handler = training.handler(folder, **termination)
        told.restored = int(training.step.numpy())
        try:
            while training.step.numpy() < steps:
                number = int(training.step.numpy())
                for step, signum in (blows or {}).get(training.rank, ()):
                    if step == number:
                        send(signum)
                time.sleep((pause or {}).get(training.rank, 0.0))
                if own_loop:
                    training.one_step()
                    training.step.assign_add(1)
                    handler.save_checkpoint_if_preempted()
                else:
                    handler.run(training.one_step)
                    training.step.assign_add(1)
            if finish:
                handler.finish_training()
        finally:
            told.step = int(training.step.numpy())
            told.runs = handler.total_run_calls
            told.digest = training.digest()

    return told_by(act)


def files(folder: Path) -> list[str]:
    """What is in a folder, of checkpoints just the numbers."""
    return sorted(entry.name for entry in folder.iterdir())
