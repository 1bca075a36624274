"""Ways to break training with Keras 2 and 3."""

from __future__ import annotations

import importlib
from typing import Any

from tfdist_kit.conformance.marks import Patch, mutant


@mutant("mwms.example.keras-fit-completed", name="keras-3-fit-forgets-to-train")
def _fit_forgets_to_train(patch: Patch) -> None:
    _train_on_nothing(patch, "keras.src.backend.tensorflow.trainer", "TensorFlowTrainer")


@mutant("mwms.example.keras-fit-completed-tf-keras", name="keras-2-fit-forgets-to-train")
def _fit_of_keras_2_forgets_to_train(patch: Patch) -> None:
    _train_on_nothing(patch, "tf_keras.src.engine.training", "Model")


@mutant(
    "mwms.example.custom-loop",
    name="keras-3-gradients-stay-on-their-worker",
    also=("mwms.example.gradients-are-summed",),
)
def _gradients_stay(patch: Patch) -> None:
    _reduce(patch, "keras.src.backend.tensorflow.optimizer", lambda pairs: pairs)


@mutant(
    "mwms.example.custom-loop-tf-keras",
    name="keras-2-gradients-stay-on-their-worker",
    also=(
        "mwms.example.keras-fit-completed-tf-keras",
        "mwms.example.gradients-are-summed-tf-keras",
    ),
)
def _gradients_of_keras_2_stay(patch: Patch) -> None:
    _reduce(patch, "tf_keras.src.optimizers.optimizer", lambda pairs: pairs)


@mutant("mwms.example.gradients-are-summed", name="keras-3-gradients-are-averaged")
def _gradients_are_averaged(patch: Patch) -> None:
    _reduce(patch, "keras.src.backend.tensorflow.optimizer", _averaged)


@mutant("mwms.example.gradients-are-summed-tf-keras", name="keras-2-gradients-are-averaged")
def _gradients_of_keras_2_are_averaged(patch: Patch) -> None:
    _reduce(patch, "tf_keras.src.optimizers.optimizer", _averaged)


def _averaged(pairs: Any) -> Any:
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    return [(context.all_reduce("MEAN", gradient), variable) for gradient, variable in pairs]


def _reduce(patch: Patch, module: str, reduced: Any) -> None:
    """Replace what an optimizer does with the gradients of all replicas."""
    found = importlib.import_module(module)
    if hasattr(found, "TFOptimizer"):
        owner, name = found.TFOptimizer, "_all_reduce_sum_gradients"
    else:
        owner, name = found.Optimizer, "aggregate_gradients"
    patch(owner, name, lambda _: lambda self, pairs: reduced(list(pairs)))


def _train_on_nothing(patch: Patch, module: str, owner: str) -> None:
    """Have a step of ``fit`` compute the loss, and change no weights."""
    trainer = getattr(importlib.import_module(module), owner)

    def make(_: Any) -> Any:
        def train_step(self: Any, data: Any) -> Any:
            return self.test_step(data)

        return train_step

    patch(trainer, "train_step", make)
