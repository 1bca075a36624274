"""Ways to break what the page says may be done on either side of scope()."""

from __future__ import annotations

import threading
from typing import Any

from tfdist_kit.conformance.marks import Patch, mutant


def _out_of_scope(found: Any) -> Any:
    """The function, called where no scope is entered: in a thread of its own."""

    def call(*args: Any, **kwargs: Any) -> Any:
        made: list[Any] = []
        thread = threading.Thread(target=lambda: made.append(found(*args, **kwargs)))
        thread.start()
        thread.join()
        return made[0]

    return call


def _refused_in_scope(found: Any) -> Any:
    return _refused(found, inside=True)


def _refused_outside(found: Any) -> Any:
    return _refused(found, inside=False)


def _refused(found: Any, *, inside: bool) -> Any:
    import tensorflow as tf

    def call(*args: Any, **kwargs: Any) -> Any:
        if tf.distribute.has_strategy() == inside:
            raise RuntimeError("not on this side of scope()")
        return found(*args, **kwargs)

    return call


@mutant("mwms.scope.datasets-on-either-side", name="in-scope-the-first-rows-are-lost")
def _(patch: Patch) -> None:
    import tensorflow as tf
    from tensorflow.python.distribute import distribute_lib

    def other(found: Any) -> Any:
        def distribute(self: Any, dataset: Any, options: Any = None) -> Any:
            less = dataset.skip(1) if tf.distribute.has_strategy() else dataset
            return found(self, less, options)

        return distribute

    patch(distribute_lib.StrategyBase, "experimental_distribute_dataset", other)


@mutant("mwms.scope.functions-on-either-side", name="in-scope-functions-are-empty")
def _(patch: Patch) -> None:
    import tensorflow as tf

    def other(found: Any) -> Any:
        return lambda fn: found((lambda: None) if tf.distribute.has_strategy() else fn)

    patch(tf, "function", other)


@mutant("mwms.scope.saving-on-either-side", name="in-scope-nothing-can-be-saved")
def _(patch: Patch) -> None:
    import tensorflow as tf

    patch(tf.saved_model, "save", _refused_in_scope)


@mutant("mwms.scope.loading", name="loading-leaves-the-scope")
def _(patch: Patch) -> None:
    import tensorflow as tf

    patch(tf.saved_model, "load", _out_of_scope)


@mutant("mwms.scope.loading-a-keras-model", name="loading-a-keras-model-leaves-the-scope")
def _(patch: Patch) -> None:
    import tf_keras

    patch(tf_keras.models, "load_model", _out_of_scope)


@mutant("mwms.scope.model-made-outside", name="a-model-of-elsewhere-is-compiled")
def _(patch: Patch) -> None:
    import tf_keras

    def other(found: Any) -> Any:
        return lambda self, optimizer, metrics, **more: None

    patch(tf_keras.Model, "_validate_compile", other)


@mutant("mwms.scope.metric-made-outside", name="metrics-are-not-looked-at")
def _(patch: Patch) -> None:
    import tf_keras

    def other(found: Any) -> Any:
        return lambda self, optimizer, metrics, **more: found(self, optimizer, None, **more)

    patch(tf_keras.Model, "_validate_compile", other)


@mutant("mwms.scope.model-call-outside", name="a-model-call-enters-the-scope")
def _(patch: Patch) -> None:
    import tf_keras

    def other(found: Any) -> Any:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            with self.distribute_strategy.scope():
                return found(self, *args, **kwargs)

        return call

    patch(tf_keras.Model, "__call__", other)


@mutant("mwms.scope.keras-outside-tf-keras", name="keras-2-evaluates-in-scope-only")
def _(patch: Patch) -> None:
    import tf_keras

    patch(tf_keras.Model, "evaluate", _refused_outside)


@mutant("mwms.scope.keras-inside-tf-keras", name="keras-2-compiles-out-of-scope-only")
def _(patch: Patch) -> None:
    import tf_keras

    patch(tf_keras.Model, "compile", _refused_in_scope)


@mutant("mwms.scope.predict-and-save-outside", name="keras-3-predicts-in-scope-only")
def _(patch: Patch) -> None:
    import keras

    patch(keras.Model, "predict", _refused_outside)
