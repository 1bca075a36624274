"""One training step: on the replicas of a strategy, each with its rows, and in one process.

    batch -> experimental_distribute_dataset -> strategy.run(step_fn)   (or model.fit)
    batch ------------------------------------> step_fn                 (or model.fit)

TensorFlow deals the rows to the replicas, as it does in training.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from tfdist_kit._errors import UsageError
from tfdist_kit.testing.checks.ranks import Ranks

StepFn = Callable[[Any, Any], Any]


@dataclasses.dataclass(frozen=True)
class Step:
    """A step as the user gave it: a function, or None for ``model.fit`` of the state."""

    function: StepFn | None

    def alone(self, state: Any, rows: Any) -> None:
        """Do it in this process, without a strategy, on `rows` (a nest of tensors)."""
        import tensorflow as tf

        if self.function is None:
            _fit(state, tf.data.Dataset.from_tensors(rows))
            return
        function = self.function
        tf.function(lambda rows: _call(function, state, rows))(rows)

    def on_replicas(self, ranks: Ranks, state: Any, share: Share) -> None:
        """Do it on all replicas. A collective; it fails on all ranks or on none.

        It is traced by all before anybody runs it: most of what fails on one worker alone fails
        there, when nobody waits for it yet.
        """
        if self.function is None:
            ranks.together("model.fit", lambda: _fit(state, share.dataset))
            return
        import tensorflow as tf

        function = self.function

        @tf.function  # type: ignore[untyped-decorator, unused-ignore]
        def step(rows: Any) -> None:
            ranks.strategy.run(lambda rows: _call(function, state, rows), args=(rows,))

        ranks.together("tracing step_fn", lambda: _trace(step, share.rows))
        ranks.together("step_fn", lambda: step(share.rows))


@dataclasses.dataclass(frozen=True)
class Share:
    """The batch as TensorFlow deals it.

    Attributes:
        dataset: The whole batch as a dataset of one element.
        rows: This worker's rows, for ``strategy.run``.
        parts: The rows of each of this worker's replicas.
    """

    dataset: Any
    rows: Any
    parts: tuple[Any, ...]


def whole(batch: Any) -> Any:
    """The batch as a nest of tensors."""
    import tensorflow as tf

    return tf.nest.map_structure(tf.convert_to_tensor, batch)


def deal(ranks: Ranks, batch: Any) -> Share:
    """Give each replica its rows. A collective."""
    import tensorflow as tf

    size = len(tf.nest.flatten(batch)[0])
    dataset = tf.data.Dataset.from_tensor_slices(batch).batch(size)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    dataset = dataset.with_options(options)
    rows = next(iter(ranks.strategy.experimental_distribute_dataset(dataset)))
    leaves = tf.nest.flatten(rows)
    local = [ranks.strategy.experimental_local_results(leaf) for leaf in leaves]
    dealt = sum(ranks.exchange(sum(len(copy) for copy in local[0])))
    if dealt != size:
        raise UsageError(
            f"TensorFlow deals only {dealt} of the {size} rows in the first step",
            hint=f"give a batch that divides by the {ranks.all_replicas} replicas",
        )
    parts = tuple(tf.nest.pack_sequence_as(batch, part) for part in zip(*local, strict=True))
    return Share(dataset, rows, parts)


def _call(function: StepFn, state: Any, rows: Any) -> None:
    """Without the identity, TensorFlow cannot reduce what was handed to a function directly."""
    import tensorflow as tf

    function(state, tf.nest.map_structure(tf.identity, rows))


def _fit(model: Any, dataset: Any) -> None:
    model.fit(dataset, epochs=1, shuffle=False, verbose=0)


def _trace(step: Any, rows: Any) -> None:
    try:
        step.get_concrete_function(rows)
    except Exception as error:
        if type(error).__name__ != "UnliftableError":
            raise
        raise UsageError(
            "step_fn makes variables, which TensorFlow cannot do on several local replicas",
            hint="build model and optimizer in make_state (model.build, optimizer.build)",
        ) from error
