"""The documented training step, in the workers of the tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.adapters.tpu_embedding import model


def made(strategy: Any, optimizer: Any = None) -> tuple[Any, dict[str, Any]]:
    """An embedding of the model, in the strategy's scope, and its `TableConfig`."""
    import tensorflow as tf

    import tfdist_kit

    tables, features = model.configs()
    optimizer = optimizer or tf.tpu.experimental.embedding.SGD(model.RATE / 10)
    with strategy.scope():
        return tfdist_kit.tpu_embedding(features, optimizer), tables


def batches(strategy: Any, replicas: list[int]) -> Iterator[Any]:
    """A distributed iterator over the batches of this process's replicas."""
    import tensorflow as tf

    def dataset(_: Any) -> Any:
        each = [
            tf.data.Dataset.from_tensors(_without_none(model.tensors(model.batch(step, replica))))
            for step in range(8)
            for replica in replicas
        ]
        data = each[0]
        for one in each[1:]:
            data = data.concatenate(one)
        return data.repeat()

    options = tf.distribute.InputOptions(experimental_fetch_to_device=False)
    return iter(strategy.distribute_datasets_from_function(dataset, options))


def _without_none(pair: tuple[Any, Any]) -> tuple[Any, dict[str, Any]]:
    features, weights = pair
    return features, {name: w for name, w in model.flat(weights).items() if w is not None}


def step_of(embedding: Any) -> Any:
    """The step that each replica runs."""
    import tensorflow as tf

    def step() -> Any:
        with tf.GradientTape() as tape:
            activations = embedding.dequeue()
            tape.watch(activations)
            loss = sum(tf.reduce_sum(each**2) / 2 for each in tf.nest.flatten(activations))
        embedding.apply_gradients(tape.gradient(loss, activations))
        return activations

    return step


def loop_of(strategy: Any, embedding: Any) -> Any:
    """The documented loop, as one function with a `tf.range`."""
    import tensorflow as tf

    step = step_of(embedding)

    @tf.function  # type: ignore[untyped-decorator, unused-ignore]
    def train(iterator: Any, steps: Any) -> None:
        for _ in tf.range(steps):
            features, weights = next(iterator)
            embedding.enqueue(features, model.nested(weights.get))
            strategy.run(step)

    return train


def values(tables: dict[str, Any], embedding: Any) -> dict[str, Any]:
    """Each table as an array, the first of its local components."""
    import tensorflow as tf

    strategy = tf.distribute.get_strategy()
    del strategy
    found = embedding.embedding_tables
    return {name: np.array(found[config]) for name, config in tables.items()}


def components(tables: dict[str, Any], embedding: Any) -> dict[str, list[Any]]:
    """Each table's components on the local devices."""
    found = embedding.embedding_tables
    return {
        name: [np.array(one) for one in getattr(found[config], "values", [found[config]])]
        for name, config in tables.items()
    }
