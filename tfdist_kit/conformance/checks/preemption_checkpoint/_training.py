"""A small training that a notice can come upon: what it trains, and what it says meanwhile.

Each step adds what every worker has to give, by a collective, so that the weight after a step
depends on every step before and on every worker, and on nothing else.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tfdist_kit.conformance.stage import Stage

NOWHERE = "127.0.0.1:9"
"""Where nobody answers: a machine that is not one of Google's."""
VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
LONG = 60
"""Steps in which a notice is handled."""
SHORT = 3
"""Steps of a training that nothing happens to, or that goes on."""


def weight_after(steps: int, workers: int = 2) -> float:
    """What the weight is after so many steps, in single precision."""
    weight = 0.0
    for step in range(steps):
        added = sum((rank + 1) * (step + 1) for rank in range(workers))
        weight = ctypes.c_float(weight * 0.5 + added).value
    return weight


def notice() -> None:
    """Have this process be sent what a platform sends before it takes the machine away."""
    os.kill(os.getpid(), signal.SIGTERM)


def alone() -> None:
    """Have this process be no part of a cluster."""
    os.environ.pop("TF_CONFIG", None)
    os.environ["GCE_METADATA_IP"] = NOWHERE


class Training:
    """In each worker: a strategy, what is trained, and the handler.

    Args:
        stage: Where it plays.
        strategy: Another one than a MultiWorkerMirroredStrategy.
        directory: Where checkpoints go, below the stage's folder.
        keep: If above 0, the handler is given a CheckpointManager that keeps so many.
        inside: Whether the handler is made in the strategy's scope.
        watched: Whether there is a handler at all.
        on_read: Whether there is a variable that all workers have to read, and save, together.
        more: What else belongs into the checkpoint.
        termination: Arguments of `Subject.make_preemption_handler`.
    """

    def __init__(
        self,
        stage: Stage,
        *,
        strategy: Any = None,
        directory: str = "job/ckpt",
        keep: int = 0,
        inside: bool = True,
        watched: bool = True,
        on_read: bool = True,
        more: Mapping[str, Any] | None = None,
        **termination: Any,
    ) -> None:
        import tensorflow as tf

        os.environ.setdefault("GCE_METADATA_IP", NOWHERE)
        self.stage = stage
        self.directory = str(stage.folder / directory)
        self.strategy = strategy or stage.subject.make_strategy()
        with self.strategy.scope():
            self.weight = tf.Variable(0.0)
            self.step = tf.Variable(0, dtype=tf.int64)
            self.seen = tf.Variable(0.0, trainable=False, **(_on_read() if on_read else {}))
        together = {"seen": self.seen} if on_read else {}
        self.checkpoint = tf.train.Checkpoint(
            weight=self.weight, step=self.step, **together, **(more or {})
        )
        self.manager = (
            tf.train.CheckpointManager(self.checkpoint, self.directory, keep) if keep else None
        )
        self._termination, self._on_read = termination, on_read
        self.handler: Any = None
        if watched and inside:
            with self.strategy.scope():
                self.watch()
        elif watched:
            self.watch()

    def watch(self) -> None:
        """Make the handler, and say what it has restored."""
        what, where = self.checkpoint, self.directory
        given = (what, where) if self.manager is None else (self.manager,)
        self.handler = self.stage.subject.make_preemption_handler(
            self.strategy, *given, **self._termination
        )
        self.stage.say("restored", step=self.at, weight=float(self.weight.numpy()))

    @property
    def at(self) -> int:
        """How many steps were trained."""
        return int(self.step.numpy())

    def reduced(self, value: float) -> float:
        """The sum of a value over all workers; it counts in `seen`, too."""
        import tensorflow as tf

        def per_replica() -> Any:
            if self._on_read:
                self.seen.assign_add(1.0)
            return tf.distribute.get_replica_context().all_reduce("sum", tf.constant(value))

        [total] = self.strategy.experimental_local_results(self.strategy.run(per_replica))
        return float(total)

    def train_step(self) -> float:
        """One step, with a collective in it."""
        self.update(self.reduced(float((self.stage.rank + 1) * (self.at + 1))))
        return float(self.weight.numpy())

    def update(self, value: float) -> None:
        """Change the weight."""
        self.weight.assign(self.weight * 0.5 + value)

    def go(
        self,
        steps: int | None = None,
        notices: Iterable[tuple[int, int]] = (),
        before: Callable[[int], None] = lambda step: None,
        function: Callable[[], Any] | None = None,
    ) -> None:
        """Train on until so many steps were trained, as the page's example does.

        Args:
            steps: How many, with those of earlier runs; None is `LONG` if there are notices, and
                else `SHORT` more than there were.
            notices: Before which steps which ranks get a notice.
            before: Called before each step.
            function: The train step, if it is another.
        """
        notices = tuple(notices)
        if steps is None:
            steps = LONG if notices else self.at + SHORT
        while (step := self.at) < steps:
            before(step)
            for _ in range(notices.count((self.stage.rank, step))):
                self.stage.say("notice", step=step)
                notice()
            self.handler.run(function or self.train_step)
            self.step.assign_add(1)
            self.stage.say("step", step=step)
        self.finished()

    def finished(self) -> None:
        """Say how far it came."""
        self.stage.say("finished", step=self.at, weight=float(self.weight.numpy()))

    def saved(self) -> None:
        """Say what the newest checkpoint holds, if there is one."""
        say_saved(self.stage, self.directory)


def _on_read() -> Mapping[str, Any]:
    import tensorflow as tf

    return {
        "synchronization": tf.VariableSynchronization.ON_READ,
        "aggregation": tf.VariableAggregation.SUM,
    }


def say_saved(stage: Stage, directory: str) -> None:
    """Say what the newest checkpoint in a folder holds, if there is one."""
    import tensorflow as tf

    path = tf.train.latest_checkpoint(directory)
    if path is None:
        return
    reader = tf.train.load_checkpoint(path)
    shapes = reader.get_variable_to_shape_map()
    names = [name for name in shapes if name.endswith(VALUE) and not shapes[name]]
    values = {name.removesuffix(VALUE): float(reader.get_tensor(name)) for name in names}
    stage.say("saved", path=os.path.basename(path), **values)


def short_heartbeats(stage: Stage, seconds: float = 1.0) -> Any:
    """A strategy that misses a silent worker sooner than after 10 s."""
    from tensorflow.python.eager import context

    os.environ["GCE_METADATA_IP"] = NOWHERE
    if stage.subject.kind == "adapter":
        return stage.subject.make_strategy(heartbeat_timeout=seconds)
    context.context().configure_coordination_service(
        "standalone",
        "/job:worker/replica:0/task:0",
        heartbeat_timeout_in_ms=int(1000 * seconds),
    )
    return stage.subject.make_strategy()
