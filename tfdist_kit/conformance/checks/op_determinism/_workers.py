"""Several workers of a MultiWorkerMirroredStrategy."""

from __future__ import annotations

from typing import Any

from tfdist_kit.conformance.checks.op_determinism._ops import digest
from tfdist_kit.conformance.checks.op_determinism._sweep import Inputs
from tfdist_kit.conformance.stage import Stage

STEPS = 3
SIZES = (1, 7, 1000, 100_001)


class Training:
    """A linear model, trained on a worker's own part of a global batch.

    Args:
        stage: Where it plays.
        strategy: Of the cluster.
    """

    def __init__(self, stage: Stage, strategy: Any) -> None:
        import tensorflow as tf

        self.stage, self.strategy = stage, strategy
        with strategy.scope():
            self.weights = tf.Variable(tf.random.normal([64, 8]))
        self.inputs = Inputs().floats(48, 64)

    def step(self) -> str:
        """One step; what it has added up over all workers, as a digest."""
        import tensorflow as tf

        size = self.strategy.num_replicas_in_sync
        batch = tf.split(self.inputs, size)[self.stage.rank]

        def replica() -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.square(tf.tanh(batch @ self.weights))) / 48.0
            context = tf.distribute.get_replica_context()
            return context.all_reduce("sum", tape.gradient(loss, self.weights))

        [total] = self.strategy.experimental_local_results(self.strategy.run(replica))
        self.weights.assign_sub(0.1 * total)
        return digest(total)

    def go(self) -> None:
        """A few steps."""
        self.stage.say("begins", weights=self.bits())
        for _ in range(STEPS):
            self.stage.say("step", reduced=self.step(), weights=self.bits())

    def bits(self) -> str:
        """The weights, as a digest."""
        return digest(self.weights.read_value())


def train(stage: Stage, run: int = 0) -> None:
    """A training, and what else the workers do alike.

    Args:
        stage: Where it plays.
        run: Which run of the same program.
    """
    import tensorflow as tf

    assert run >= 0
    strategy = stage.subject.make_strategy()
    stage.subject.enable_op_determinism(1)
    training = Training(stage, strategy)
    training.go()
    if strategy.num_replicas_in_sync == 2:
        mask = strategy.run(lambda: tf.nn.dropout(tf.ones([100]), 0.5))
        stage.say("dropout", mask=digest(mask))
        stage.say("ring", sums=_sums(strategy))


def _sums(strategy: Any) -> list[list[str]]:
    """What comes of adding up the same values again and again, for each size."""
    import tensorflow as tf

    replica = tf.distribute.get_replica_context

    def added(value: Any) -> Any:
        return strategy.run(lambda: replica().all_reduce("sum", tf.identity(value)))

    rank = strategy.cluster_resolver.task_id
    values = [Inputs().floats(size) * float(3 * rank + 1) / 7.0 for size in SIZES]
    return [sorted({digest(added(value)) for _ in range(4)}) for value in values]


def unlike(stage: Stage, what: str) -> None:
    """A training in which one worker is set up otherwise than the other.

    Args:
        stage: Where it plays.
        what: ``switch`` (it is off in one), ``seed`` (another one), ``unseeded`` (no seed in one),
            ``off`` (neither switch nor seeds, in both).
    """
    strategy = stage.subject.make_strategy()
    if what == "unseeded" and stage.rank == 1:
        stage.subject.enable_op_determinism()
    elif what == "seed":
        stage.subject.enable_op_determinism(1 + stage.rank)
    elif what != "off" and not (what == "switch" and stage.rank == 1):
        stage.subject.enable_op_determinism(1)
    if what != "off":
        _compare(stage, strategy)
    Training(stage, strategy).go()


def _compare(stage: Stage, strategy: Any) -> None:
    """Have the workers compare themselves; where they all refuse, nobody leaves before the last."""
    try:
        stage.subject.compare_workers(strategy)
    except Exception:
        stage.meet("refused")
        raise
