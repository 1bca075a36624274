"""The training and the evaluation step of the page."""

from __future__ import annotations

from typing import Any

import pytest

from tfdist_kit.conformance.checks.tpu_embedding import _engine, _steps
from tfdist_kit.conformance.checks.tpu_embedding._configs import feature
from tfdist_kit.conformance.checks.tpu_embedding._features import sparse, trace, value
from tfdist_kit.conformance.checks.tpu_embedding._traced import (
    APPLY,
    DEQUEUE,
    ENQUEUE,
    modes,
    nodes,
    ops,
    sgd,
    traced,
)
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import STOCK, Subject

pytestmark = pytest.mark.tfdist(workers=1, timeout=60)


@claim("tpu.step.traces")
def test_traces(subject: Subject) -> None:
    import tensorflow as tf

    with traced(cores_per_host=2) as strategy:
        embedding = _steps.embedding_of(subject, strategy)
        step = _steps.training_step(strategy, embedding)
        concrete = step.get_concrete_function(_steps.batches(strategy), tf.constant(3))
    assert ops(concrete) == {ENQUEUE: 2, DEQUEUE: 1, APPLY: 1}
    assert modes(concrete) == ["train", "train"]
    outside = [op.type for op in concrete.graph.get_operations()]
    assert ENQUEUE not in outside, "the loop was unrolled"


def trained(subject: Subject, strategy: Any) -> None:
    """Train two steps and hold the table against what it should be."""
    import numpy as np
    import tensorflow as tf

    embedding = _steps.embedding_of(subject, strategy)
    _steps.training_step(strategy, embedding)(_steps.batches(strategy), tf.constant(2))
    right = _steps.expected(strategy.num_replicas_in_sync, steps=2)
    np.testing.assert_allclose(_steps.rows_of(embedding), right, rtol=1e-6)


@claim("tpu.step.numbers")
def test_numbers_alone(subject: Subject) -> None:
    trained(subject, _engine.strategy())


@claim("tpu.step.numbers")
@pytest.mark.tfdist(local_replicas=2)
def test_numbers_of_two_replicas(subject: Subject) -> None:
    trained(subject, subject.make_strategy())


@claim("tpu.step.numbers")
@pytest.mark.tfdist(workers=2)
def test_numbers_of_two_workers(subject: Subject) -> None:
    trained(subject, subject.make_strategy())


@claim("tpu.step.evaluation")
def test_evaluation(subject: Subject) -> None:
    import tensorflow as tf

    strategy = _engine.strategy()
    embedding = _steps.embedding_of(subject, strategy, _steps.adagrad())
    _steps.training_step(strategy, embedding)(_steps.batches(strategy), tf.constant(1))
    before = everything(embedding)
    _steps.evaluation_step(strategy, embedding)(_steps.batches(strategy), tf.constant(2))
    assert everything(embedding) == before
    assert set(before) == {"rows", "rows/accumulators"}


def everything(embedding: Any) -> dict[str, Any]:
    """The values of all variables of an embedding."""
    import tensorflow as tf

    children = tf.train.TrackableView(embedding).children(embedding).items()
    return {name: one.numpy().tolist() for name, one in children if isinstance(one, tf.Variable)}


@claim("tpu.step.sum-of-gradients")
@pytest.mark.tfdist(local_replicas=2)
def test_sum_of_gradients(subject: Subject) -> None:
    import tensorflow as tf

    def loss(activations: Any, size: Any) -> Any:
        return tf.add_n([tf.reduce_sum(each) for each in activations.values()])

    strategy = subject.make_strategy()
    embedding = _steps.embedding_of(subject, strategy)
    step = _steps.training_step(strategy, embedding, loss)
    step(_steps.batches(strategy), tf.constant(1))
    lookups = [1, 5, 0, 0, 0, 2]  # of both replicas and features
    rows = [row - _steps.RATE * count for row, count in enumerate(lookups)]
    assert _steps.rows_of(embedding).tolist() == [[one] * _steps.DIM for one in rows]


@claim("tpu.step.watched-activations")
def test_watched_activations(subject: Subject) -> None:
    assert gradients(subject, watch=False) == [None, None]
    assert [one.shape for one in gradients(subject, watch=True)] == [[2, _steps.DIM]] * 2


def gradients(subject: Subject, watch: bool) -> list[Any]:
    """What the tape gives for the activations of a traced step."""
    import tensorflow as tf

    found: list[Any] = []
    with traced(cores_per_host=1) as strategy:
        embedding = _steps.embedding_of(subject, strategy)
        embedding.build({name: tf.TensorShape([2, 1]) for name in _steps.SCALES})

        def step() -> None:
            with tf.GradientTape() as tape:
                activations = embedding.dequeue()
                if watch:
                    tape.watch(activations)
                loss = _steps.squares(activations, 1.0)
            found.extend(tape.gradient(loss, activations).values())

        trace(lambda: strategy.run(step))
    return found


def stopped(body: Any) -> None:
    """Have a step end with an error that says so, and not wait for ever."""
    import tensorflow as tf

    with pytest.raises((RuntimeError, tf.errors.InvalidArgumentError), match="TPU"):
        body()


@claim("tpu.step.training-without-gradients")
def test_training_without_gradients(subject: Subject) -> None:
    strategy = _engine.strategy()
    embedding = _steps.embedding_of(subject, strategy)

    def step() -> None:
        embedding.enqueue(value_of_batch(), training=True)
        strategy.run(embedding.dequeue)

    step()
    stopped(step)


@claim("tpu.step.gradients-without-training")
def test_gradients_without_training(subject: Subject) -> None:
    strategy = _engine.strategy()
    embedding = _steps.embedding_of(subject, strategy)
    embedding.enqueue(value_of_batch(), training=False)
    activations = strategy.run(embedding.dequeue)
    stopped(lambda: strategy.run(embedding.apply_gradients, args=(activations,)))


@claim("tpu.step.dequeue-without-a-batch")
def test_dequeue_without_a_batch(subject: Subject) -> None:
    import tensorflow as tf

    strategy = _engine.strategy()
    embedding = _steps.embedding_of(subject, strategy)
    embedding.build({name: tf.TensorShape([2, 1]) for name in _steps.SCALES})
    stopped(lambda: strategy.run(embedding.dequeue))


def value_of_batch() -> dict[str, Any]:
    """The batch of the first replica."""
    import tensorflow as tf

    return {name: tf.constant(ids) for name, ids in _steps.ids_of(0).items()}


@claim("tpu.step.tuples")
def test_tuples(subject: Subject) -> None:
    import tensorflow as tf

    seen = []

    def loss(activations: Any, more: Any) -> Any:
        seen.append((sorted(activations), more.shape.rank))
        return _steps.squares(activations, more)

    with traced(cores_per_host=1) as strategy:
        embedding = _steps.embedding_of(subject, strategy)
        step = _steps.training_step(strategy, embedding, loss)
        step.get_concrete_function(_steps.batches(strategy), tf.constant(1))
        assert seen == [(["a", "b"], 0)]
        another = tf.data.Dataset.from_tensors(([[1]], 2.0))
        with pytest.raises(ValueError, match="structure"):
            step.get_concrete_function(iter(another), tf.constant(1))


@claim("tpu.step.keras")
def test_keras(subject: Subject) -> None:
    """Traced on a made-up TPU; in host mode it also runs."""
    import tensorflow as tf

    with traced(cores_per_host=1) as strategy:
        step = keras_step(subject, strategy)
        found = step.get_concrete_function(_steps.batches(strategy))
    assert ops(found)[APPLY] == 1
    assert "AssignSubVariableOp" in {node.op for node in nodes(found)}, "the model is not trained"
    if subject.kind != STOCK:
        strategy = tf.distribute.get_strategy()
        step, batches = keras_step(subject, strategy), _steps.batches(strategy)
        losses = [float(step(batches)) for _ in range(4)]
        assert losses == sorted(losses, reverse=True)
        assert losses[-1] < losses[0]


def keras_step(subject: Subject, strategy: Any) -> Any:
    """A step that trains a Keras model with the table."""
    import keras
    import tensorflow as tf

    embedding = _steps.embedding_of(subject, strategy, sgd(0.01))
    with strategy.scope():
        model = keras.Sequential(
            [keras.Input([_steps.DIM]), keras.layers.Dense(1, kernel_initializer="ones")]
        )
        optimizer = keras.optimizers.SGD(0.01)
        optimizer.build(model.trainable_variables)

    def tpu_step() -> Any:
        with tf.GradientTape() as tape:
            activations = embedding.dequeue()
            tape.watch(activations)
            loss = tf.nn.l2_loss(model(activations["a"]) + model(activations["b"]))
        own = model.trainable_variables
        gradients, of_model = tape.gradient(loss, (activations, own))
        embedding.apply_gradients(gradients)
        optimizer.apply_gradients(zip(of_model, own, strict=True))
        return loss

    @tf.function
    def step(iterator: Any) -> Any:
        features, _ = next(iterator)
        embedding.enqueue(features, training=True)
        return strategy.run(tpu_step)

    return step


@claim("tpu.step.needs-a-tpu")
def test_needs_a_tpu(subject: Subject) -> None:
    import tensorflow as tf

    ids = sparse(4, 5)
    with traced(cores_per_host=1) as strategy:
        with strategy.scope():
            embedding = subject.make_embedding(feature(), sgd())
        concrete = trace(embedding.enqueue, ids)
    with pytest.raises((tf.errors.InvalidArgumentError, tf.errors.NotFoundError), match="OpKernel"):
        concrete(value(ids))


@claim("tpu.step.not-eager")
def test_not_eager() -> None:
    import tensorflow as tf

    with traced() as strategy, pytest.raises(NotImplementedError, match=r"tf\.function"):
        strategy.run(lambda: tf.constant(1))
