"""Has Keras 3 and tf_keras models recorded without a word in the program.

    import of Keras' trainer -> make_train_function and fit are wrapped
    the first train function -> optimizers and losses, too: they tell `keras_loop` what they get

Every hook leaves its arguments and results as they are. Names of Keras are looked up here alone;
one that a version lacks leaves its part of the step out.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from typing import Any

from tfdist_kit.adapters.op_determinism.recorder import session
from tfdist_kit.adapters.op_determinism.recorder.collecting import named_variables
from tfdist_kit.adapters.op_determinism.recorder.keras_loop import MARK, Loop, collector

KERAS = "keras.src.backend.tensorflow.trainer"
TF_KERAS = "tf_keras.src.engine.training"
TRAINERS = {KERAS: "TensorFlowTrainer", TF_KERAS: "Model"}


def at_import(module: Any) -> None:
    """Hook the trainer that `module` defines; called by the worker when it is imported."""
    trainer = getattr(module, TRAINERS[module.__name__])
    _hook(trainer, "make_train_function", _recorded_function)
    _hook(trainer, "fit", _fitted)


def hook_loaded() -> None:
    """Hook those of the trainers that are imported already."""
    for name in TRAINERS:
        if name in sys.modules:
            at_import(sys.modules[name])


def _hook(owner: Any, name: str, wrap: Callable[[Any], Any]) -> None:
    original = vars(owner).get(name)
    if original is None or hasattr(original, MARK):
        return
    wrapped = functools.wraps(original)(wrap(original))
    setattr(wrapped, MARK, True)
    setattr(owner, name, wrapped)


def _recorded_function(original: Any) -> Any:
    def make_train_function(self: Any, *args: Any, **kwargs: Any) -> Any:
        going_on = session.current()
        if going_on is None:
            return original(self, *args, **kwargs)
        _hook_optimizers()
        before = vars(self).get(Loop.NAME)
        loop = Loop.of(self, going_on)
        if loop is not before:  # what was traced already knows nothing of this recording
            self.train_function = None
        result = original(self, *args, **kwargs)
        if not hasattr(self.train_function, MARK):
            self.train_function = loop.read_after(self.train_function)
        return None if result is None else self.train_function

    return make_train_function


def _fitted(original: Any) -> Any:
    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        loop = vars(self).get(Loop.NAME)
        if loop is not None:
            loop.end()
        return result

    return fit


def _hook_optimizers() -> None:
    """Let optimizers tell of the gradients that they are given; they are all imported by now."""
    for module, owner, hooks in (
        ("keras.src.optimizers.base_optimizer", "BaseOptimizer", _GIVEN),
        ("keras.src.optimizers.loss_scale_optimizer", "LossScaleOptimizer", _GIVEN),
        ("keras.src.backend.tensorflow.optimizer", "TFOptimizer", _SUMMED),
        ("keras.src.trainers.trainer", "Trainer", _LOSS),
        ("tf_keras.src.optimizers.optimizer", "Optimizer", {**_GIVEN, **_SUMMED}),
        ("tf_keras.src.mixed_precision.loss_scale_optimizer", "LossScaleOptimizerV3", _GIVEN),
        ("tf_keras.src.engine.training", "Model", _LOSS),
    ):
        found = getattr(sys.modules.get(module), owner, None)
        for name, wrap in hooks.items() if found is not None else ():
            _hook(found, name, wrap)


def _with_given(original: Any) -> Any:
    """Of ``apply(grads, variables)`` and ``apply_gradients(pairs)``."""

    def apply(self: Any, grads: Any, *args: Any, **kwargs: Any) -> Any:
        going_on = collector()
        if going_on is not None:
            grads = list(grads)
            going_on.add("grad", _named_gradients(grads, args, kwargs))
        return original(self, grads, *args, **kwargs)

    return apply


def _named_gradients(grads: list[Any], args: Any, kwargs: Any) -> list[tuple[str, Any]]:
    if all(isinstance(each, tuple) and len(each) == 2 for each in grads):
        variables: Iterable[Any] = [variable for _, variable in grads]
        grads = [grad for grad, _ in grads]
    else:
        given = args[0] if args else kwargs.get("trainable_variables")
        variables = list(given) if given is not None else [None] * len(grads)
    names = [name for name, _ in named_variables(variables)]
    return list(zip(names, grads, strict=False))


def _with_summed(original: Any) -> Any:
    def all_reduce(self: Any, pairs: Any, *args: Any, **kwargs: Any) -> Any:
        import tensorflow as tf

        result = original(self, pairs, *args, **kwargs)
        going_on = collector()
        if going_on is None or tf.distribute.get_strategy().num_replicas_in_sync == 1:
            return result
        result = list(result)
        going_on.add("reduced", _named_gradients(result, (), {}))
        return result

    return all_reduce


def _with_loss(original: Any) -> Any:
    def compute_loss(self: Any, *args: Any, **kwargs: Any) -> Any:
        loss = original(self, *args, **kwargs)
        going_on = collector()
        if going_on is not None:
            going_on.add("loss", [("loss", loss)])
        return loss

    return compute_loss


_GIVEN = {"apply_gradients": _with_given, "apply": _with_given}
_SUMMED = {"_all_reduce_sum_gradients": _with_summed, "aggregate_gradients": _with_summed}
_LOSS = {"_compute_loss": _with_loss, "compute_loss": _with_loss}
