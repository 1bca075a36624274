"""scope() and Keras, 2 and 3."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tfdist_kit.conformance.checks.multi_worker_mirrored._common import is_mirrored
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject
from tfdist_kit.testing import Worker, gather

pytestmark = pytest.mark.tfdist(workers=2, timeout=60)


def model_2() -> Any:
    import tf_keras

    return tf_keras.Sequential([tf_keras.layers.Dense(1, input_shape=(2,))])


def model_3() -> Any:
    import keras

    return keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])


def data() -> tuple[Any, Any]:
    import numpy as np

    x = np.arange(16, dtype="float32").reshape(8, 2) / 16
    return x, x.sum(1, keepdims=True)


@claim("mwms.scope.model-made-outside")
def test_model_made_outside(subject: Subject) -> None:
    strategy = subject.make_strategy()
    model = model_2()
    with (
        strategy.scope(),
        pytest.raises(ValueError, match="was not created in the distribution strategy scope"),
    ):
        model.compile("sgd", "mse")


@claim("mwms.scope.metric-made-outside")
def test_metric_made_outside(subject: Subject) -> None:
    import tf_keras

    strategy = subject.make_strategy()
    metric = tf_keras.metrics.MeanSquaredError()
    with strategy.scope():
        model = model_2()
        with pytest.raises(ValueError, match="inside a different distribution strategy scope"):
            model.compile("sgd", "mse", metrics=[metric])


@claim("mwms.scope.model-call-outside")
def test_model_call_outside(subject: Subject) -> None:
    import tensorflow as tf
    import tf_keras

    with subject.make_strategy().scope():
        called_inside = tf_keras.Sequential([tf_keras.layers.Dense(1)])
        called_outside = tf_keras.Sequential([tf_keras.layers.Dense(1)])
        called_inside(tf.ones((1, 2)))
    called_outside(tf.ones((1, 2)))
    assert [is_mirrored(variable) for variable in called_inside.variables] == [True, True]
    assert [is_mirrored(variable) for variable in called_outside.variables] == [False, False]


@claim("mwms.scope.keras-outside-tf-keras")
def test_keras_2_outside(subject: Subject, tf_worker: Worker, tmp_path: Path) -> None:
    with subject.make_strategy().scope():
        model = model_2()
    use(model, tmp_path / f"{tf_worker.rank}.keras")


@claim("mwms.scope.keras-inside-tf-keras")
def test_keras_2_inside(subject: Subject, tf_worker: Worker, tmp_path: Path) -> None:
    with subject.make_strategy().scope():
        model = model_2()
        use(model, tmp_path / f"{tf_worker.rank}.keras")


def use(model: Any, path: Path) -> None:
    """Compile, fit, evaluate, predict and save a model of Keras 2."""
    x, y = data()
    model.compile("sgd", "mse")
    before = model.get_weights()[0].tolist()
    model.fit(x, y, batch_size=4, verbose=0)
    weights = model.get_weights()[0].tolist()
    assert weights != before
    assert gather(weights) == [weights] * 2
    loss = model.evaluate(x, y, batch_size=4, verbose=0)
    assert gather(loss) == [loss] * 2
    assert model.predict(x, batch_size=4, verbose=0).shape == (8, 1)
    model.save(path)
    assert path.stat().st_size > 0


@claim("mwms.scope.predict-and-save-outside")
def test_keras_3_predict_and_save(subject: Subject, tf_worker: Worker, tmp_path: Path) -> None:
    with subject.make_strategy().scope():
        model = model_3()
    path = tmp_path / f"{tf_worker.rank}.keras"
    x, _ = data()
    found = model.predict(x, batch_size=4, verbose=0)
    kernel, bias = model.get_weights()
    assert found == pytest.approx(x @ kernel + bias, rel=1e-5, abs=1e-6)
    model.save(path)
    assert path.stat().st_size > 0


@claim("mwms.scope.fit-outside")
def test_keras_3_fit(subject: Subject) -> None:
    with subject.make_strategy().scope():
        model = model_3()
    model.compile("sgd", "mse")
    before = model.get_weights()[0].tolist()
    model.fit(*data(), batch_size=4, verbose=0)
    weights = model.get_weights()[0].tolist()
    assert weights != before
    assert gather(weights) == [weights] * 2


@claim("mwms.scope.evaluate-outside")
def test_keras_3_evaluate(subject: Subject) -> None:
    with subject.make_strategy().scope():
        model = model_3()
    model.compile("sgd", "mse")
    loss = model.evaluate(*data(), batch_size=4, verbose=0)
    assert gather(loss) == [loss] * 2
