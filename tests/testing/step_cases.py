"""Training steps that are those of a single process, and steps that are not, in each worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.testing.checked import Case, local_strategies, outcomes, rank_of, strategy_of
from tfdist_kit.testing import assert_same_as_single_process

State = Callable[[], Any]


def in_worker(api: str, replicas: int, only: list[str] | None) -> dict[str, str]:
    strategy = strategy_of(api, replicas)
    batch = make_batch(4 * strategy.num_replicas_in_sync)
    cases = {**_right(batch), **_wrong(batch, strategy), **_refused(batch, strategy)}
    if api == "v2":
        cases |= _fit(batch)
    return outcomes(
        strategy, {name: case for name, case in cases.items() if only is None or name in only}
    )


def make_batch(size: int) -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    return (
        random.normal(size=(size, 3)).astype(np.float32),
        random.normal(size=(size, 1)).astype(np.float32),
    )


def same(step: Any, state: State, batch: Any, **more: Any) -> Case:
    return lambda strategy: assert_same_as_single_process(
        step, state, batch, strategy=strategy, **more
    )


def state(optimizer: str, *, old: bool = False, rate: float = 0.1, build: bool = True) -> State:
    """A linear model and its optimizer, of Keras 3 or of tf_keras."""

    def make() -> dict[str, Any]:
        import keras
        import tf_keras

        library = tf_keras if old else keras
        model = library.Sequential([library.Input((3,)), library.layers.Dense(1)])
        made = getattr(library.optimizers, optimizer)(rate)
        if build:
            made.build(model.trainable_variables)
        return {"model": model, "optimizer": made, "remark": "no variable"}

    return make


def step(loss: Callable[[Any], Any], **more: Any) -> Callable[[Any, Any], None]:
    """A usual step, with this loss of the errors of a replica's rows."""

    def train(state: Any, rows: Any) -> None:
        import tensorflow as tf

        features, labels = rows
        with tf.GradientTape() as tape:
            predicted = state["model"](features, training=True)
            value = loss(tf.reduce_sum((predicted - labels) ** 2, axis=-1))
        variables = state["model"].trainable_variables
        gradients = tape.gradient(value, variables)
        state["optimizer"].apply_gradients(zip(gradients, variables, strict=True), **more)

    return train


def total(size: int, *, twice: bool = False) -> Callable[[Any], Any]:
    def loss(errors: Any) -> Any:
        import tensorflow as tf

        replicas = tf.distribute.get_strategy().num_replicas_in_sync if twice else 1
        return tf.nn.compute_average_loss(errors, global_batch_size=size) / replicas

    return loss


def mean(errors: Any) -> Any:
    import tensorflow as tf

    return tf.reduce_mean(errors)


def module(aggregation: str) -> State:
    def make() -> Any:
        import tensorflow as tf

        holder = tf.Module()
        how = tf.VariableAggregation[aggregation]
        holder.weight = tf.Variable([[1.0], [2.0], [3.0]], name="weight", aggregation=how)
        return holder

    return make


def module_step(size: int, *, reduces: bool) -> Callable[[Any, Any], None]:
    def train(holder: Any, rows: Any) -> None:
        import tensorflow as tf

        features, labels = rows
        with tf.GradientTape() as tape:
            value = tf.reduce_sum((features @ holder.weight - labels) ** 2) / size
        gradient = tape.gradient(value, holder.weight)
        if reduces:
            gradient = tf.distribute.get_replica_context().all_reduce("SUM", gradient)
        holder.weight.assign_sub(0.1 * gradient)

    return train


def _right(batch: Any) -> dict[str, Case]:
    size = len(batch[0])
    odd = tuple(part[1:] for part in batch)
    right = step(total(size))
    return {
        "SGD": same(right, state("SGD"), batch),
        "Adam": same(right, state("Adam"), batch),
        "SGD of tf_keras": same(right, state("SGD", old=True), batch),
        "Adam of tf_keras": same(right, state("Adam", old=True), batch),
        "uneven": same(step(total(size - 1)), state("SGD"), odd),
        "module": same(module_step(size, reduces=True), module("MEAN"), batch),
        "no strategy given": lambda _: assert_same_as_single_process(right, state("SGD"), batch),
        "the wrong left out": same(
            step(mean),
            state("Adam"),
            batch,
            variables=lambda state: state["model"],
            atol=1e-3,
        ),
    }


def _wrong(batch: Any, strategy: Any) -> dict[str, Case]:
    size, rank = len(batch[0]), rank_of(strategy)
    odd = tuple(part[1:] for part in batch)

    def fails(state: Any, rows: Any) -> None:
        if rank == 1:
            raise ValueError("rank 1 cannot do this")
        step(mean)(state, rows)

    def fails_late(state: Any, rows: Any) -> None:
        import tensorflow as tf

        tf.debugging.assert_less(tf.reduce_max(rows[0]), -100.0 if rank == 1 else 100.0)
        step(mean)(state, rows)

    def dropout() -> dict[str, Any]:
        import keras

        layers = [keras.Input((3,)), keras.layers.Dropout(0.5, seed=1), keras.layers.Dense(1)]
        return {"model": keras.Sequential(layers), "optimizer": keras.optimizers.SGD(0.1)}

    def only_there() -> Any:
        if rank == 1:
            raise ValueError("no state on rank 1")
        return state("SGD")()

    return {
        "mean": same(step(mean), state("SGD"), batch),
        "mean, Adam": same(step(mean), state("Adam"), batch),
        "mean, tf_keras": same(step(mean), state("Adam", old=True), batch),
        "divided twice": same(step(total(size, twice=True)), state("SGD"), batch),
        "mean of unequal parts": same(step(mean), state("SGD"), odd),
        "not reduced": same(module_step(size, reduces=False), module("ONLY_FIRST_REPLICA"), batch),
        "mean of updates": same(module_step(size, reduces=False), module("MEAN"), batch),
        "aggregation skipped": same(
            step(total(size), skip_gradients_aggregation=True), state("Adam", old=True), batch
        ),
        "dropout": same(step(total(size)), dropout, batch),
        "fails": same(fails, state("SGD"), batch),
        "fails late": same(fails_late, state("SGD"), batch),
        "no state": same(step(mean), only_there, batch),
    }


def _refused(batch: Any, strategy: Any) -> dict[str, Case]:
    size = len(batch[0])
    right = step(total(size))

    def lazy() -> dict[str, Any]:
        import keras

        model = keras.Sequential([keras.layers.Dense(1)])
        return {"model": model, "optimizer": keras.optimizers.SGD(0.1)}

    def in_scope(strategy: Any) -> None:
        with strategy.scope():
            assert_same_as_single_process(right, state("SGD"), batch)

    other = tuple(part + rank_of(strategy) for part in batch)
    return {
        "does nothing": same(lambda state, rows: None, state("SGD"), batch),
        "within the tolerance": same(right, state("SGD", rate=1e-9), batch),
        "not built": same(right, lazy, batch),
        "no variables": same(right, lambda: {"rate": 0.1}, batch),
        "too few rows": same(right, state("SGD"), tuple(part[:1] for part in batch)),
        "another batch on each": same(right, state("SGD"), other),
        "unequal batch": same(right, state("SGD"), (batch[0], batch[1][1:])),
        "in scope": in_scope,
        "no step, no model": same(None, state("SGD"), batch),
    }


def compiled(*, old: bool = False, normalised: bool | None = None) -> State:
    def make() -> Any:
        import keras
        import tf_keras

        library = tf_keras if old else keras
        layers = [library.Input((3,)), library.layers.Dense(1)]
        if normalised is not None:
            layers.insert(1, library.layers.BatchNormalization(synchronized=normalised))
        model = library.Sequential(layers)
        model.compile(library.optimizers.SGD(0.1), "mse", metrics=["mae"])
        return model

    return make


def _fit(batch: Any) -> dict[str, Case]:
    odd = tuple(part[1:] for part in batch)
    return {
        "fit": same(None, compiled(), batch),
        "fit of tf_keras": same(None, compiled(old=True), batch),
        "fit, synchronized": same(None, compiled(normalised=True), batch),
        "fit, BatchNormalization": same(None, compiled(normalised=False), batch),
        "fit, unequal parts": same(None, compiled(), odd),
    }


def in_worker_alone() -> dict[str, dict[str, str]]:
    batch = make_batch(8)
    cases = {
        "right": same(step(total(8)), state("SGD"), batch),
        "mean": same(step(mean), state("SGD"), batch),
    }
    return {kind: outcomes(strategy, cases) for kind, strategy in local_strategies().items()}
