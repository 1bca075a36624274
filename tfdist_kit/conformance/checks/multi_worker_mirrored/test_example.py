"""The page's examples with Keras, as they are written and as they can run."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject
from tfdist_kit.testing import Worker

pytestmark = pytest.mark.tfdist(workers=2, timeout=60)

NUM_STEP = 2
KERAS_3, KERAS_2 = "keras", "tf_keras"


@claim("mwms.example.keras-fit")
def test_fit_as_it_is_written(subject: Subject) -> None:
    _fit_as_it_is_written(subject, KERAS_3)


@claim("mwms.example.keras-fit-tf-keras")
def test_fit_as_it_is_written_with_keras_2(subject: Subject) -> None:
    _fit_as_it_is_written(subject, KERAS_2)


@claim("mwms.example.keras-fit-completed")
def test_fit_with_what_the_example_leaves_out(subject: Subject, tf_worker: Worker) -> None:
    _fit_completed(subject, tf_worker, KERAS_3)


@claim("mwms.example.keras-fit-completed-tf-keras")
def test_fit_with_what_the_example_leaves_out_with_keras_2(
    subject: Subject, tf_worker: Worker
) -> None:
    _fit_completed(subject, tf_worker, KERAS_2)


@claim("mwms.example.custom-loop")
def test_the_loop(subject: Subject, tf_worker: Worker) -> None:
    _loop(subject, tf_worker, KERAS_3)


@claim("mwms.example.custom-loop-tf-keras")
def test_the_loop_with_keras_2(subject: Subject, tf_worker: Worker) -> None:
    _loop(subject, tf_worker, KERAS_2)


@claim("mwms.example.gradients-are-summed")
@pytest.mark.parametrize("v1", [False, True], ids=["v2", "v1"])
def test_an_optimizer_adds_the_gradients_up(subject: Subject, tf_worker: Worker, v1: bool) -> None:
    _gradients_are_summed(subject, tf_worker, KERAS_3, v1=v1)


@claim("mwms.example.gradients-are-summed-tf-keras")
def test_an_optimizer_of_keras_2_adds_the_gradients_up(subject: Subject, tf_worker: Worker) -> None:
    _gradients_are_summed(subject, tf_worker, KERAS_2, v1=False)


def _made(subject: Subject, keras: Any) -> tuple[Any, Any, Any, Any]:
    """Strategy, model, optimizer and dataset, made as the page does."""
    import tensorflow as tf

    strategy = subject.make_strategy()

    with strategy.scope():
        model = keras.Sequential([keras.layers.Dense(2, input_shape=(5,))])
        optimizer = keras.optimizers.SGD(learning_rate=0.1)

    def dataset_fn(ctx: Any) -> Any:
        x = np.random.random((2, 5)).astype(np.float32)
        y = np.random.randint(2, size=(2, 1))
        dataset = tf.data.Dataset.from_tensor_slices((x, y))
        return dataset.repeat().batch(1, drop_remainder=True)

    return strategy, model, optimizer, strategy.distribute_datasets_from_function(dataset_fn)


def _fit_as_it_is_written(subject: Subject, keras_name: str) -> None:
    _, model, _, dist_dataset = _made(subject, importlib.import_module(keras_name))
    model.compile()
    model.fit(dist_dataset)


def _fit_completed(subject: Subject, worker: Worker, keras_name: str) -> None:
    keras = importlib.import_module(keras_name)
    strategy, model, optimizer, dist_dataset = _made(subject, keras)
    start = _flat(model)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss)
    model.fit(dist_dataset, steps_per_epoch=NUM_STEP, verbose=0)
    _assert_trained_alike(strategy, worker, start, _flat(model))


def _loop(subject: Subject, worker: Worker, keras_name: str) -> None:
    import tensorflow as tf

    keras = importlib.import_module(keras_name)
    strategy, model, optimizer, dist_dataset = _made(subject, keras)
    # The page's loss takes logits for probabilities: outside of 0 to 1 it has no gradient.
    model.set_weights([np.full((5, 2), 0.1), np.zeros(2)])
    iterator = iter(dist_dataset)
    start = _flat(model)

    @tf.function
    def train_step(iterator: Any) -> None:
        def step_fn(inputs: Any) -> None:
            features, labels = inputs
            with tf.GradientTape() as tape:
                logits = model(features, training=True)
                loss = keras.losses.sparse_categorical_crossentropy(labels, logits)

            grads = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(grads, model.trainable_variables))  # noqa: B905

        strategy.run(step_fn, args=(next(iterator),))

    for _ in range(NUM_STEP):
        train_step(iterator)
    _assert_trained_alike(strategy, worker, start, _flat(model))


def _gradients_are_summed(subject: Subject, worker: Worker, keras_name: str, *, v1: bool) -> None:
    import tensorflow as tf

    keras = importlib.import_module(keras_name)
    strategy = subject.make_strategy_v1() if v1 else subject.make_strategy()
    with strategy.scope():
        weight = tf.Variable(1.0)
        optimizer = keras.optimizers.SGD(1.0)
        if keras_name == KERAS_3:
            optimizer.build([weight])
    gradient = tf.constant(worker.rank + 1.0)
    strategy.run(lambda: optimizer.apply_gradients([(tf.identity(gradient), weight)]))
    assert float(weight.numpy()) == 1.0 - (1.0 + 2.0)


def _flat(model: Any) -> Any:
    """All weights, one after the other."""
    return np.concatenate([weight.ravel() for weight in model.get_weights()])


def _assert_trained_alike(strategy: Any, worker: Worker, start: Any, end: Any) -> None:
    """Check that the weights are new, and the same on all workers."""
    import tensorflow as tf

    assert np.isfinite(end).all(), end
    assert not np.array_equal(start, end), "the weights are those that it started with"
    own = tf.constant(end)
    if worker.rank:  # the sum is the first worker's, as it is
        own = tf.zeros_like(own)
    first = strategy.reduce("SUM", own, axis=None)
    np.testing.assert_array_equal(first, end)
