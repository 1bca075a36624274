"""Keras 3 on live workers gives the numbers of one process; what cannot work says so.

The functions whose names begin with ``train_`` or ``check_`` run in the workers. Each is run by
one process without a cluster, too, and the results are compared. Most of them run in one
cluster, one after the other.
"""

from __future__ import annotations

import contextlib
import functools
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.adapters.cluster import run_cluster, run_workers
from tests.once import once

HERE = "tests.adapters.test_keras"
CLOSE = 2e-6


Calls = dict[str, tuple[str, dict[str, Any]]]
COMPARED: Calls = {
    "fit": ("train", {}),
    "fit in executions": ("train", {"steps_per_execution": 2, "compiled_in_scope": False}),
    "weights": ("train_with_weights", {}),
    "nan": ("train_until_nan", {}),
    "by hand": ("train_by_hand", {}),
    "own step": ("train_own_step", {}),
    "tf_keras": ("train_tf_keras", {}),
}
PROGRESS: Calls = {"progress": ("check_progress", {})}
ALONE: Calls = {
    "switch": ("check_switch", {}),
    "guards": ("check_guards", {}),
    **COMPARED,
    "evaluate": ("evaluate", {}),
    **PROGRESS,
}
TWO: Calls = {
    **COMPARED,
    "stock": ("check_stock_keras", {}),
    "scope": ("check_scope", {}),
    **PROGRESS,
}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What one process gets, by name of the call."""

    def make(folder: Path) -> dict[str, Any]:
        calls = {**ALONE, "callbacks": ("train_with_callbacks", {"folder": str(folder)})}
        [told] = run_workers(f"{HERE}:all_of", workers=0, timeout=400, calls=calls)
        return dict(told)

    return once(tmp_path_factory, f"{HERE}:alone", make)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of two workers gets, by name of the call."""
    return once(
        tmp_path_factory,
        f"{HERE}:two",
        lambda _: run_workers(f"{HERE}:all_of", timeout=400, calls=TWO),
    )


def all_workers(told: list[dict[str, Any]], name: str) -> Any:
    """What all workers get from a call; they must agree with one another."""
    first, *others = [each[name] for each in told]
    for other in others:
        assert other == first
    return first


def assert_close(actual: Any, expected: Any, tolerance: float = CLOSE) -> None:
    """Compare nested lists and dicts of numbers."""
    if isinstance(expected, dict):
        assert actual.keys() == expected.keys()
        for key in expected:
            assert_close(actual[key], expected[key], tolerance)
    elif isinstance(expected, (list, tuple)) and expected and isinstance(expected[0], (list, dict)):
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            assert_close(one, other, tolerance)
    else:
        np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


# In the workers


def all_of(calls: Calls) -> dict[str, Any]:
    return {name: globals()[function](**kwargs) for name, (function, kwargs) in calls.items()}


def start() -> Any:
    """The strategy of this process, and Keras as it is at the start; none outside a cluster."""
    import keras

    from tfdist_kit.adapters.keras import enable_multi_worker

    enable_multi_worker()
    keras.utils.clear_session()
    return the_strategy() if os.environ.get("TF_CONFIG") else None


@functools.cache
def the_strategy() -> Any:
    import tensorflow as tf

    return tf.distribute.MultiWorkerMirroredStrategy()


def scope(strategy: Any) -> Any:
    return strategy.scope() if strategy else contextlib.nullcontext()


def arrays(count: int) -> tuple[Any, Any]:
    random = np.random.RandomState(0)
    return random.rand(count, 5).astype("float32"), random.randint(0, 3, count)


def batches(count: int, *more: Any) -> Any:
    """Examples in batches of 16, split over the workers by TensorFlow itself."""
    import tensorflow as tf

    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    dataset = tf.data.Dataset.from_tensor_slices((*arrays(count), *more))
    return dataset.batch(16).with_options(options)


def classifier(
    strategy: Any,
    *layers: Any,
    metrics: Any = ("accuracy",),
    compiled_in_scope: bool = True,
    **compiled: Any,
) -> Any:
    import keras

    keras.utils.set_random_seed(1)
    with scope(strategy):
        model = keras.Sequential(
            [
                *[make() for make in layers],
                keras.layers.Dense(8, activation="tanh", kernel_regularizer="l2"),
                keras.layers.Dense(3),
            ]
        )
        optimizer = keras.optimizers.Adam(0.05)
    with scope(strategy if compiled_in_scope else None):
        model.compile(
            optimizer,
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=list(metrics),
            **compiled,
        )
    return model


def numbers(model: Any, history: Any) -> dict[str, Any]:
    weights = [weight.tolist() for weight in model.get_weights()]
    return {"history": history.history, "weights": weights}


def train(**compiled: Any) -> Any:
    model = classifier(start(), **compiled)
    fitted = model.fit(batches(48), epochs=2, verbose=0, validation_data=batches(41))
    return {**numbers(model, fitted), "predict": model.predict(batches(41), verbose=0).tolist()}


def evaluate() -> Any:
    model = classifier(start())
    return {
        "evaluate": [model.evaluate(batches(count), verbose=0) for count in (33, 48)],
        "predict": [model.predict(arrays(count)[0], verbose=0).tolist() for count in (1, 41)],
    }


def train_with_weights() -> Any:
    import keras

    strategy = start()
    with scope(strategy):
        top = keras.metrics.SparseTopKCategoricalAccuracy(2)
    normalise = functools.partial(keras.layers.BatchNormalization, synchronized=True)
    model = classifier(strategy, normalise, metrics=[top], weighted_metrics=["accuracy"])
    weights = np.linspace(0.5, 2, 32).astype("float32")
    first = model.fit(batches(32, weights), epochs=1, verbose=0)
    second = model.fit(batches(32), epochs=1, verbose=0, class_weight={0: 1.0, 1: 2.0, 2: 0.5})
    x, y = arrays(48)
    third = model.fit(x, y, batch_size=16, shuffle=False, validation_split=0.33, verbose=0)
    return [numbers(model, fitted) for fitted in (first, second, third)]


def train_with_callbacks(folder: str) -> Any:
    import keras

    strategy = start()
    task = strategy.cluster_resolver.task_type if strategy else "chief"
    seen: list[Any] = []
    callbacks = [
        keras.callbacks.EarlyStopping("val_loss", patience=0, min_delta=10.0),
        keras.callbacks.BackupAndRestore(f"{folder}/backup-{task}", delete_checkpoint=False),
        keras.callbacks.LambdaCallback(on_train_batch_end=lambda _, logs: seen.append(dict(logs))),
    ]
    if task == "chief":  # it does more than its peers, but no collective
        callbacks.append(keras.callbacks.ModelCheckpoint(f"{folder}/model.keras"))
    model = classifier(strategy, functools.partial(keras.Input, (5,)))
    fitted = model.fit(
        batches(64), epochs=5, verbose=0, validation_data=batches(32), callbacks=callbacks
    )
    resumed = model.fit(
        batches(64), epochs=3, verbose=0, callbacks=[callbacks[1]], validation_data=batches(32)
    )
    return {"first": fitted.history, "resumed": numbers(model, resumed), "logs": seen}


def train_until_nan() -> Any:
    import keras

    model = classifier(start())
    x, y = arrays(64)
    x[20] = np.nan  # only one worker sees it
    callbacks = [keras.callbacks.TerminateOnNaN()]
    fitted = model.fit(x, y, batch_size=16, shuffle=False, epochs=3, verbose=0, callbacks=callbacks)
    return [len(fitted.history["loss"]), float(np.isnan(fitted.history["loss"][-1]))]


def train_by_hand() -> Any:
    strategy = start()
    model = classifier(strategy)
    x, y = arrays(16)
    if strategy:
        own = slice(strategy.cluster_resolver.task_id, None, 2)
        x, y = x[own], y[own]
    trained = model.train_on_batch(x, y, return_dict=True)
    tested = model.test_on_batch(x, y, return_dict=True)
    return {name: float(trained[name] + tested[name]) for name in trained}


def train_own_step() -> Any:
    import keras
    import tensorflow as tf

    class Model(keras.Model):  # type: ignore[misc]  # Keras has no types
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(1, kernel_initializer="ones")

        def call(self, x: Any) -> Any:
            return self.dense(x)

        def train_step(self, data: Any) -> Any:
            x, _ = data
            return {"mean": tf.reduce_mean(self(x)), "per example": tf.reduce_mean(x, axis=0)}

    with scope(strategy := start()):
        model = Model()
        model.compile()
    fitted = model.fit(batches(32), epochs=1, verbose=0)
    assert strategy is None or len(model.weights) == 2
    return {name: np.asarray(values).tolist() for name, values in fitted.history.items()}


def train_tf_keras() -> Any:
    import tf_keras

    strategy = start()
    tf_keras.utils.set_random_seed(1)
    with scope(strategy):
        model = tf_keras.Sequential([tf_keras.layers.Dense(3)])
        loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(tf_keras.optimizers.SGD(0.1), loss, metrics=["accuracy"])
    fitted = model.fit(batches(64), epochs=2, verbose=0, validation_data=batches(32))
    return {**numbers(model, fitted), "predict": model.predict(batches(32), verbose=0).tolist()}


def check_progress() -> list[str]:
    """What the launcher hears of a training and of an evaluation."""
    from tfdist_kit.launcher.inside import report

    reader, writer = os.pipe()
    report.open_pipe(writer)
    model = classifier(start(), steps_per_execution=2)
    model.fit(batches(64), epochs=3, verbose=0)
    heard = ""
    while "step 12\n" not in heard:
        heard += os.read(reader, 4096).decode()
    model.evaluate(batches(64), verbose=0)
    heard += os.read(reader, 4096).decode()
    return heard.split()


def check_stock_keras() -> str:
    from tfdist_kit.adapters.keras import disable_multi_worker

    strategy = start()
    disable_multi_worker()
    with pytest.raises(ValueError) as error:
        classifier(strategy).fit(batches(32), verbose=0)
    return str(error.value)


def check_scope() -> str:
    import keras

    from tfdist_kit import StrategyError

    strategy = start()
    outside = keras.metrics.SparseTopKCategoricalAccuracy(2)
    with pytest.raises(StrategyError) as error:
        classifier(strategy, metrics=[outside]).fit(batches(32), verbose=0)
    return str(error.value)


def check_v1() -> list[str]:
    """In a cluster of its own: a second strategy would count its collectives anew."""
    import tensorflow as tf

    from tfdist_kit import StrategyError
    from tfdist_kit.adapters.keras import enable_multi_worker

    enable_multi_worker()
    strategy = tf.compat.v1.distribute.experimental.MultiWorkerMirroredStrategy()
    model = classifier(strategy)
    texts = []
    for call in (model.fit, model.evaluate, model.predict):
        with pytest.raises(StrategyError) as error:
            call(batches(16), verbose=0)
        texts.append(str(error.value))
    return texts


def check_switch() -> str:
    from keras.src.backend.tensorflow import trainer
    from keras.src.trainers.trainer import Trainer
    from tensorflow.python.ops.control_flow_v2_func_graphs import CondBranchFuncGraph

    from tfdist_kit.adapters import keras as adapter

    def state() -> list[Any]:
        owners = (trainer, trainer.TensorFlowTrainer, Trainer, CondBranchFuncGraph)
        return [dict(vars(owner)) for owner in owners]

    original = state()
    adapter.enable_multi_worker()
    enabled = state()
    assert adapter.is_enabled()
    assert enabled != original
    adapter.enable_multi_worker()
    assert state() == enabled
    adapter.disable_multi_worker()
    assert not adapter.is_enabled()
    assert state() == original
    return "switched"


def check_guards() -> list[str]:
    import keras
    from keras.src.backend.tensorflow import trainer

    from tfdist_kit import TfdistError
    from tfdist_kit.adapters.keras import enable_multi_worker, is_enabled

    def averages_itself(strategy: Any, value: Any) -> Any:
        return strategy.reduce("MEAN", value, axis=None)

    def refusal() -> str:
        with pytest.raises(TfdistError) as error:
            enable_multi_worker()
        assert not is_enabled()
        return str(error.value)

    texts = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer, "reduce_per_replica", averages_itself)
        enable_multi_worker()
        assert not is_enabled()
        patch.setattr(trainer, "reduce_per_replica", refusal)
        texts.append(refusal())
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(trainer.TensorFlowTrainer, "_make_function")
        texts.append(refusal())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keras.backend, "backend", lambda: "jax")
        texts.append(refusal())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keras, "Variable", lambda value: value)
        texts.append(refusal())
    return texts


# In pytest


@pytest.mark.parametrize("name", ["fit", "fit in executions"])
def test_fit_evaluate_and_predict(
    alone: dict[str, Any], two: list[dict[str, Any]], name: str
) -> None:
    assert_close(all_workers(two, name), alone[name])


def test_evaluate_and_predict_where_batches_do_not_divide(alone: dict[str, Any]) -> None:
    first, *others = run_workers(f"{HERE}:evaluate", workers=3)
    assert others == [first] * 2
    assert_close(first, alone["evaluate"])


def test_class_and_sample_weights_arrays_and_synchronized_normalisation(
    alone: dict[str, Any], two: list[dict[str, Any]]
) -> None:
    # the normalisation divides by a variance
    assert_close(all_workers(two, "weights"), alone["weights"], 1e-4)


def test_callbacks_see_the_same_on_all_workers(alone: dict[str, Any], tmp_path: Path) -> None:
    chief, peer = run_cluster(
        f"{HERE}:train_with_callbacks", ("chief", "worker"), folder=str(tmp_path)
    )
    assert_close(chief, alone["callbacks"])
    assert peer == chief
    assert len(chief["first"]["loss"]) == 2  # EarlyStopping
    assert len(chief["resumed"]["history"]["loss"]) == 1  # BackupAndRestore went on from there
    assert len(chief["logs"]) == 8
    assert (tmp_path / "model.keras").stat().st_size > 0  # ModelCheckpoint


def test_a_callback_that_stops_one_worker_stops_all(
    alone: dict[str, Any], two: list[dict[str, Any]]
) -> None:
    assert all_workers(two, "nan") == alone["nan"] == [1, 1.0]


@pytest.mark.parametrize("name", ["by hand", "own step", "tf_keras"])
def test_batches_by_hand_own_train_steps_and_tf_keras(
    alone: dict[str, Any], two: list[dict[str, Any]], name: str
) -> None:
    """The logs of an own train step are averaged; tf_keras needs no help."""
    assert_close(all_workers(two, name), alone[name])


def test_each_batch_is_reported_as_progress(
    alone: dict[str, Any], two: list[dict[str, Any]]
) -> None:
    for heard in [each["progress"] for each in (alone, *two)]:
        assert "12" in heard  # three epochs of four batches
        assert heard[-1] == "alive"  # batches that do not train are not counted


def test_stock_keras_fails(two: list[dict[str, Any]]) -> None:
    """When this fails, Keras can do without ``enable_multi_worker``."""
    for told in two:
        assert "PerReplica" in told["stock"]


def test_a_metric_made_outside_the_scope_is_refused(two: list[dict[str, Any]]) -> None:
    for told in two:
        assert "outside strategy.scope()" in told["scope"]
        assert "sparse_top_k_categorical_accuracy/total" in told["scope"]


def test_the_compat_v1_class_is_refused() -> None:
    for texts in run_workers(f"{HERE}:check_v1"):
        assert len(texts) == 3
        assert all("under the compat.v1 strategy" in text for text in texts)


def test_it_can_be_switched_on_twice_and_off(alone: dict[str, Any]) -> None:
    assert alone["switch"] == "switched"


def test_unknown_internals_are_refused_before_anything_changes(alone: dict[str, Any]) -> None:
    average, attribute, backend, metrics = alone["guards"]
    assert "in a way that is not known here: tests.adapters.test_keras.refusal" in average
    assert "needs TensorFlowTrainer._make_function, which Keras 3" in attribute
    assert "backend 'jax'" in backend
    assert "does not add metrics up" in metrics
