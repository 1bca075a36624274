"""The steps of the page, two features of one table to train, and what the table is to become.

ids of each replica -> dataset -> training_step or evaluation_step -> table; expected() -> the same
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tfdist_kit.conformance.checks.tpu_embedding._configs import counted, feature, table
from tfdist_kit.conformance.checks.tpu_embedding._traced import PLAIN, sgd
from tfdist_kit.conformance.subjects import Subject

ROWS, DIM, RATE = 6, 2, 0.25
SCALES = {"a": 1.0, "b": 3.0}
"""How much each feature counts in the loss."""


def ids_of(replica: int) -> Mapping[str, list[list[int]]]:
    """The ids that a replica looks up: some of them in both features, and in every replica."""
    return {"a": [[replica], [1]], "b": [[1], [5]]}


def embedding_of(subject: Subject, strategy: Any, optimizer: Any = None) -> Any:
    """An embedding of two features of one table, whose row ``i`` is ``i`` everywhere."""
    rows = table(ROWS, DIM, name="rows", initializer=counted(ROWS, DIM))
    with strategy.scope():
        config = {name: feature(rows) for name in SCALES}
        return subject.make_embedding(config, optimizer or sgd(RATE))


def adagrad() -> Any:
    """An optimizer with a slot."""
    import tensorflow as tf

    return tf.tpu.experimental.embedding.Adagrad(RATE, **PLAIN)


def batches(strategy: Any) -> Any:
    """The batches of a strategy, again and again: of features, and of what the loss needs."""
    import tensorflow as tf

    replicas = strategy.num_replicas_in_sync

    def dataset(context: Any) -> Any:
        local = context.num_replicas_in_sync // context.num_input_pipelines
        first = context.input_pipeline_id * local
        every = [ids_of(first + each) for each in range(local)]
        features = {name: tf.constant([one[name] for one in every]) for name in SCALES}
        size = tf.fill([local], 2.0 * replicas)
        return tf.data.Dataset.from_tensor_slices((features, size)).repeat()

    options = tf.distribute.InputOptions(experimental_fetch_to_device=False)
    return iter(strategy.distribute_datasets_from_function(dataset, options))


def squares(activations: Any, size: Any) -> Any:
    """A loss, divided by the global batch size; its gradients are the scaled activations."""
    import tensorflow as tf

    parts = [SCALES[name] * tf.nn.l2_loss(each) for name, each in activations.items()]
    return tf.add_n(parts) / size


def training_step(
    strategy: Any, embedding: Any, loss: Callable[..., Any] = squares, watch: bool = True
) -> Any:
    """The training step of the page.

    Args:
        strategy: Runs it.
        embedding: Is trained.
        loss: Is given the activations, and what else the dataset has.
        watch: Whether the tape watches the activations.
    """
    import tensorflow as tf

    @tf.function
    def training_step(iterator: Any, num_steps: Any) -> None:
        def tpu_step(more: Any) -> None:
            with tf.GradientTape() as tape:
                activations = embedding.dequeue()
                if watch:
                    tape.watch(activations)
                value = loss(activations, more)
            embedding.apply_gradients(tape.gradient(value, activations))

        for _ in tf.range(num_steps):
            features, more = next(iterator)
            embedding.enqueue(features, training=True)
            strategy.run(tpu_step, args=(more,))

    return training_step


def evaluation_step(strategy: Any, embedding: Any) -> Any:
    """The evaluation step of the page; gives the last activations."""
    import tensorflow as tf

    @tf.function
    def evaluation_step(iterator: Any, num_steps: Any) -> None:
        for _ in tf.range(num_steps):
            features, _ = next(iterator)
            embedding.enqueue(features, training=False)
            strategy.run(lambda: squares(embedding.dequeue(), 1.0))

    return evaluation_step


def rows_of(embedding: Any) -> Any:
    """The table, as NumPy has it."""
    [rows] = embedding.embedding_tables.values()
    return rows.numpy()


def expected(replicas: int, steps: int) -> Any:
    """What `training_step` makes of the table with `squares`, in double precision."""
    import numpy as np

    rows = np.repeat(np.arange(float(ROWS))[:, None], DIM, axis=1)
    for _ in range(steps):
        change = np.zeros_like(rows)
        for replica in range(replicas):
            for name, ids in ids_of(replica).items():
                flat = np.ravel(ids)
                np.add.at(change, flat, SCALES[name] * rows[flat] / (2 * replicas))
        rows -= RATE * change
    return rows
