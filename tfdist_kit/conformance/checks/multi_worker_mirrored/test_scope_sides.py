"""scope(): what may be done on either side of it, and loading, where the side matters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tfdist_kit.conformance.checks.multi_worker_mirrored._common import is_mirrored
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject
from tfdist_kit.testing import Worker, gather

pytestmark = pytest.mark.tfdist(workers=2, timeout=60)


@claim("mwms.scope.datasets-on-either-side")
def test_datasets(subject: Subject) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    outside = distributed(strategy)
    with strategy.scope():
        inside = distributed(strategy)
    mine = [tf.concat(strategy.experimental_local_results(one), 0) for one in outside]
    rows = [one.numpy().tolist() for one in mine]
    again = [tf.concat(strategy.experimental_local_results(one), 0) for one in inside]
    assert [one.numpy().tolist() for one in again] == rows
    assert gather(rows) == [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]


def distributed(strategy: Any) -> Any:
    import tensorflow as tf

    return strategy.experimental_distribute_dataset(tf.data.Dataset.range(8).batch(4))


@claim("mwms.scope.functions-on-either-side")
def test_functions(subject: Subject, tf_worker: Worker) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    with strategy.scope():
        variable = tf.Variable(1.0, aggregation=tf.VariableAggregation.SUM)

    def made() -> Callable[[], Any]:
        def step() -> Any:
            return variable.assign(tf.identity(tf_worker.rank + 1.0))

        return tf.function(lambda: strategy.run(step))  # type: ignore[no-any-return]

    outside = made()
    with strategy.scope():
        inside = made()
    for function in (outside, inside):
        variable.assign(0.0)
        function()
        assert float(variable.numpy()) == 3.0


@claim("mwms.scope.saving-on-either-side")
def test_saving(subject: Subject, tf_worker: Worker, tmp_path: Path) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    module = tf.Module()
    with strategy.scope():
        module.v = tf.Variable(6.0)
    folder = tmp_path / str(tf_worker.rank)
    save(module, folder / "outside")
    with strategy.scope():
        save(module, folder / "inside")
    assert saved(folder / "outside") == saved(folder / "inside") == [6.0, 6.0]


def save(module: Any, folder: Path) -> None:
    """As a checkpoint, and as a SavedModel."""
    import tensorflow as tf

    tf.train.Checkpoint(v=module.v).write(str(folder / "checkpoint"))
    tf.saved_model.save(module, str(folder / "model"))


def saved(folder: Path) -> list[float]:
    import tensorflow as tf

    paths = (folder / "checkpoint", folder / "model" / "variables" / "variables")
    name = "v/.ATTRIBUTES/VARIABLE_VALUE"
    return [float(tf.train.load_checkpoint(str(path)).get_tensor(name)) for path in paths]


@claim("mwms.scope.loading")
def test_loading(subject: Subject, tf_worker: Worker, tmp_path: Path) -> None:
    import tensorflow as tf

    strategy = subject.make_strategy()
    module = tf.Module()
    module.v = tf.Variable(6.0)
    path = str(tmp_path / str(tf_worker.rank))
    tf.saved_model.save(module, path)
    with strategy.scope():
        inside = tf.saved_model.load(path)
    outside = tf.saved_model.load(path)
    assert is_mirrored(inside.v)
    assert not is_mirrored(outside.v)
    assert float(inside.v.numpy()) == float(outside.v.numpy()) == 6.0


@claim("mwms.scope.loading-a-keras-model")
def test_loading_a_keras_model(subject: Subject, tf_worker: Worker, tmp_path: Path) -> None:
    import tf_keras

    strategy = subject.make_strategy()
    path = str(tmp_path / f"{tf_worker.rank}.keras")
    tf_keras.Sequential([tf_keras.layers.Dense(1, input_shape=(2,))]).save(path)
    with strategy.scope():
        inside = tf_keras.models.load_model(path)
    outside = tf_keras.models.load_model(path)
    assert [is_mirrored(variable) for variable in inside.variables] == [True, True]
    assert [is_mirrored(variable) for variable in outside.variables] == [False, False]
