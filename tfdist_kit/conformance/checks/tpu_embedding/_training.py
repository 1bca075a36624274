"""Steps that run, and where the tables then are.

Features (ids, weights) -> enqueue -> dequeue -> gradients -> apply_gradients -> a checkpoint
    -> held(): each table and slot variable

The loss of a step is half the sum of all squared activations, so that the gradient of each
activation is the activation itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tfdist_kit.conformance.checks.tpu_embedding import _engine, _numbers, _saving
from tfdist_kit.conformance.checks.tpu_embedding._numbers import Array, Feature, State
from tfdist_kit.conformance.subjects import Subject

Batch = Mapping[str, Feature]

BEGINS: Mapping[str, Mapping[str, float]] = {
    "SGD": {},
    "Adagrad": {"accumulators": 0.1},
    "AdagradMomentum": {"accumulators": 0.0, "momenta": 0.0},
    "FTRL": {"accumulators": 0.1, "linears": 0.0},
    "Adam": {"momenta": 0.0, "velocities": 0.0},
}
"""What each optimizer's slot variables hold before the first step."""
SHAPES = {"film": (6, 2), "user": (4, 3)}
"""The tables of `BATCHES`; no batch looks up the last row of any."""
BATCHES: Sequence[Batch] = (
    {
        "seen": Feature("film", [[1, 1, 3], [], [4]], [[0.5, 2.0, 1.0], [], [3.0]]),
        "order": Feature("film", [[1, 0, 3, 2], [4], []], length=3),
        "who": Feature("user", [[2], [0, 2], [0]], combiner="sqrtn"),
    },
    {
        "seen": Feature("film", [[0], [3, 1], [1]], [[1.0], [0.25, 4.0], [2.0]]),
        "order": Feature("film", [[], [2], [3, 3]], length=3),
        "who": Feature("user", [[1, 1], [0], []], combiner="sqrtn"),
    },
    {
        "seen": Feature("film", [[], [], [0, 2]], [[], [], [1.5, 0.5]]),
        "order": Feature("film", [[4], [1], [1]], length=3),
        "who": Feature("user", [[2], [2], [2]], combiner="sqrtn"),
    },
)
"""Three steps: two features on one table, weights, a sequence, ids that come twice."""


def begin(shape: tuple[int, int]) -> Array:
    """What a table of this shape holds before the first step."""
    numbers = np.arange(shape[0] * shape[1], dtype=np.float64)
    return np.reshape(np.cos(numbers) + 0.25, shape)


def batch_of(features: Batch) -> tuple[Any, Any]:
    """The ids and the weights that enqueue is given for a batch, ragged."""
    import tensorflow as tf

    def ragged(rows: Any, dtype: Any) -> Any:
        return tf.ragged.constant(rows, dtype=dtype, ragged_rank=1, row_splits_dtype=tf.int64)

    ids = {name: ragged(one.ids, tf.int64) for name, one in features.items()}
    weights = {
        name: None if one.weights is None else ragged(one.weights, tf.float32)
        for name, one in features.items()
    }
    return ids, weights


@dataclass(frozen=True)
class Training:
    """Tables that are trained.

    Attributes:
        strategy: The strategy that the object was made under.
        embedding: The object.
    """

    strategy: Any
    embedding: Any

    def step(self, features: Batch, gradients: Callable[[Any], Any] | None = None) -> None:
        """Run a training step; all replicas together do what one would.

        Args:
            features: The batch of each replica.
            gradients: What it makes of the activations; else those of the loss.
        """
        import tensorflow as tf

        ids, weights = batch_of(features)

        def replica() -> None:
            with tf.GradientTape() as tape:
                activations = self.embedding.dequeue()
                tape.watch(activations)
                squares = [tf.nn.l2_loss(one) for one in tf.nest.flatten(activations)]
                loss = tf.add_n(squares)
            found = gradients(activations) if gradients else tape.gradient(loss, activations)
            self.embedding.apply_gradients(tf.nest.map_structure(self._shared, found))

        def step() -> None:
            self.embedding.enqueue(ids, weights, training=True)
            self.strategy.run(replica)

        on_tpu = isinstance(self.strategy, tf.distribute.TPUStrategy)
        (tf.function(step) if on_tpu else step)()

    def _shared(self, gradient: Any) -> Any:
        return None if gradient is None else gradient / self.strategy.num_replicas_in_sync

    def held(self, folder: Path) -> Mapping[str, State]:
        """Each table with its slot variables, read from a checkpoint in a folder."""
        path = _saving.saved(self.embedding, folder)
        found: dict[str, State] = {}
        for key in _saving.keys(path):
            table, _, slot = key.removeprefix("embedding/").partition(".S")
            rows = np.array(_saving.read(path, key))
            found.setdefault(table, {})[slot or "parameters"] = rows
        return found


def training(subject: Subject, features: Batch, optimizer: Any) -> Training:
    """Make an object for batches of this kind, with tables of `SHAPES` that hold `begin`."""
    import tensorflow as tf

    kinds = tf.tpu.experimental.embedding
    tables: dict[str, Any] = {}
    for one in features.values():
        if one.table not in tables:
            initial = tf.constant_initializer(begin(SHAPES[one.table]))
            tables[one.table] = kinds.TableConfig(
                *SHAPES[one.table], initializer=initial, combiner=one.combiner, name=one.table
            )
    configs = {
        name: kinds.FeatureConfig(tables[one.table], max_sequence_length=one.length)
        for name, one in features.items()
    }
    strategy = _engine.strategy()
    with strategy.scope():
        return Training(strategy, subject.make_embedding(configs, optimizer))


def states(kind: str, tables: Sequence[str] = tuple(SHAPES)) -> dict[str, State]:
    """Where tables with an optimizer of this kind begin."""
    return {
        table: {
            "parameters": begin(SHAPES[table]),
            **{slot: np.full(SHAPES[table], value) for slot, value in BEGINS[kind].items()},
        }
        for table in tables
    }


def follows(
    subject: Subject, folder: Path, optimizer: Any, rule: Callable[[State, Any, Array], None]
) -> Mapping[str, State]:
    """Require training with `BATCHES` to take every variable where a formula does.

    Args:
        subject: Makes the object.
        folder: Is written to.
        optimizer: Whose class says how slot variables begin.
        rule: The formula.

    Returns:
        Where the training has taken them.
    """
    trained = training(subject, BATCHES[0], optimizer)
    wanted = states(type(optimizer).__name__)
    for features in BATCHES:
        trained.step(features)
        _numbers.step(features, wanted, rule)
    found = trained.held(folder)
    assert found.keys() == wanted.keys()
    for table, state in wanted.items():
        assert found[table].keys() == state.keys()
        for slot, values in state.items():
            close = np.allclose(found[table][slot], values, rtol=1e-4, atol=1e-5)
            assert close, f"{table} {slot}: {found[table][slot]}, by the formula {values}"
    moved = wanted["film"]["parameters"] - begin(SHAPES["film"])
    assert np.abs(moved).max() > 1e-2, "the formula has moved nothing"
    return found
