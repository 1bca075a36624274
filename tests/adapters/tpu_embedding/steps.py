"""Programs for a TPU: steps as TensorFlow documents them, and each with one fault.

A program is a function ``make(strategy)``, as `check_step` takes it. The faulty lines are marked
with ``# here``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

import tfdist_kit

Program = Callable[[Any], Any]
E = tf.tpu.experimental.embedding
STEPS = tf.TensorSpec([], tf.int32)
BATCH = 4


def dataset_fn(_context: Any = None, *, ragged: bool = True, whole: bool = True) -> Any:
    """A host's data: features by name, and labels; `BATCH` rows for each core."""
    rows = tf.ragged.constant([[1], [2, 3]] * 8, dtype=tf.int64)
    features = {"a": tf.ones([16, 1], tf.int64), "b": rows if ragged else rows.to_tensor()[:, :1]}
    data = tf.data.Dataset.from_tensor_slices((features, tf.ones([16, 1])))
    return data.batch(BATCH, drop_remainder=True).repeat() if whole else data.batch(BATCH)


def embedding(optimizer: Any = None, *, kit: bool = True, **features: Any) -> Any:
    """An embedding of two features, each with a table of its own."""
    tables = {name: E.TableConfig(8, 2, name=f"table_{name}") for name in "ab"}
    config = {name: E.FeatureConfig(table=table, **features) for name, table in tables.items()}
    make = tfdist_kit.tpu_embedding if kit else E.TPUEmbedding
    return make(config, optimizer or E.SGD(0.1))


@dataclass(frozen=True)
class Plan:
    """What a step does, if it is not what it should do."""

    optimizer: Callable[[], Any] = lambda: E.SGD(0.1)
    training: bool = True
    enqueues: int = 1
    dequeues: int = 1
    applied: int = 1
    watched: bool = True
    used: str = "ab"
    linear: bool = False
    kit: bool = True
    early: bool = False


def planned(**plan: Any) -> Program:
    """A program whose step does as planned, once."""
    return lambda strategy: _planned(strategy, Plan(**plan))


def _planned(strategy: Any, plan: Plan) -> Any:
    with strategy.scope():
        own = embedding(plan.optimizer(), kit=plan.kit)

    def core_step(labels: Any) -> None:
        for _ in range(plan.dequeues):
            with tf.GradientTape(persistent=True) as tape:
                activations = own.dequeue()
                if plan.watched:
                    tape.watch(activations)
                out = sum(tf.reduce_sum(activations[name]) for name in plan.used)
                loss = out if plan.linear else tf.reduce_sum((out - labels) ** 2)
        for _ in range(plan.applied):
            own.apply_gradients(tape.gradient(loss, activations))

    @tf.function  # type: ignore[untyped-decorator]
    def step(iterator: Any, steps: Any) -> None:
        for _ in tf.range(steps):
            features, labels = next(iterator)
            if plan.early:
                own.build({name: tf.TensorShape([BATCH, 1]) for name in "ab"})
                strategy.run(core_step, args=(labels,))
            for _ in range(plan.enqueues):
                own.enqueue(features, training=plan.training)
            if not plan.early:
                if not plan.enqueues:
                    own.build({name: tf.TensorShape([BATCH, 1]) for name in "ab"})
                strategy.run(core_step, args=(labels,))

    return step


def documented(strategy: Any) -> Any:
    """The document's two steps, with a model and an optimizer of Keras."""
    import keras

    with strategy.scope():
        own = embedding(E.Adam(0.01))
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        optimizer = keras.optimizers.Adam(0.01)
        optimizer.build(model.trainable_variables)

    def loss_of(activations: Any, labels: Any) -> Any:
        predicted = model(tf.concat([activations["a"], activations["b"]], axis=-1))
        return tf.reduce_sum((predicted - labels) ** 2) / BATCH / strategy.num_replicas_in_sync

    @tf.function  # type: ignore[untyped-decorator]
    def training_step(iterator: Any, steps: Any) -> None:
        def tpu_step(labels: Any) -> None:
            with tf.GradientTape(persistent=True) as tape:
                activations = own.dequeue()
                tape.watch(activations)
                loss = loss_of(activations, labels)
            own.apply_gradients(tape.gradient(loss, activations))
            weights = model.trainable_variables
            optimizer.apply(tape.gradient(loss, weights), weights)

        for _ in tf.range(steps):
            features, labels = next(iterator)
            own.enqueue(features, training=True)
            strategy.run(tpu_step, args=(labels,))

    @tf.function  # type: ignore[untyped-decorator]
    def evaluation_step(iterator: Any, steps: Any) -> Any:
        total = 0.0
        for _ in tf.range(steps):
            features, labels = next(iterator)
            own.enqueue(features, training=False)
            losses = strategy.run(lambda labels: loss_of(own.dequeue(), labels), args=(labels,))
            total += strategy.reduce("SUM", losses, axis=None)
        return total

    return {"training": training_step, "evaluation": evaluation_step}


def documented_in_host_mode() -> list[float]:
    """The same program on this machine: the loss before the training, and after it."""
    import keras

    keras.utils.set_random_seed(1)
    steps = documented(tf.distribute.get_strategy())
    iterator = iter(dataset_fn())
    losses = [float(steps["evaluation"](iterator, tf.constant(1)))]
    steps["training"](iterator, tf.constant(30))
    return [*losses, float(steps["evaluation"](iterator, tf.constant(1)))]


def _in_a_condition(gradients: Any) -> Any:
    is_any = tf.reduce_sum(gradients["a"]) > 0
    return tf.cond(
        is_any,
        lambda: {name: tf.zeros_like(each) for name, each in gradients.items()},
        lambda: {name: tf.zeros_like(each) for name, each in gradients.items()},
    )


ZEROS: dict[str, Callable[[Any], Any]] = {
    "product": lambda gradients: {name: each * 0.0 for name, each in gradients.items()},
    "condition": _in_a_condition,
}
"""Gradients that are zero by their values alone."""


def with_a_flag() -> list[float]:
    """In host mode whether a step trains may be a tensor: a table's first value after each."""
    table = E.TableConfig(8, 2, name="table", initializer=tf.zeros_initializer())
    own = tfdist_kit.tpu_embedding(E.FeatureConfig(table), E.SGD(1.0))

    @tf.function  # type: ignore[untyped-decorator]
    def step(training: Any) -> None:
        own.enqueue(tf.zeros([1, 1], tf.int64), training=training)
        activations = own.dequeue()
        if training:
            own.apply_gradients(tf.ones_like(activations))

    own.build(tf.TensorShape([1, 1]))
    values = []
    for training in (True, False, True):
        step(tf.constant(training))
        values.append(float(own.embedding_tables[table][0, 0]))
    assert own.unfinished() == []
    return values


def bare(
    write: Callable[[Any, Any, Callable[..., Any]], Callable[..., Any]],
    *,
    decorated: bool = True,
    zero: str = "",
) -> Program:
    """A program whose step is written by `write(strategy, embedding, core_step)`."""

    def make(strategy: Any) -> Any:
        with strategy.scope():
            own = embedding()

        def core_step(*_values: Any) -> None:
            with tf.GradientTape() as tape:
                activations = own.dequeue()
                tape.watch(activations)
                loss = tf.reduce_sum(activations["a"] ** 2) + tf.reduce_sum(activations["b"] ** 2)
            own.apply_gradients(
                ZEROS.get(zero, lambda each: each)(tape.gradient(loss, activations))
            )

        step = write(strategy, own, core_step)
        return tf.function(step) if decorated else step

    return make
