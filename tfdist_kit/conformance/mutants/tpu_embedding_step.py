"""Ways to break the training and the evaluation step."""

from __future__ import annotations

from typing import Any

from tfdist_kit.conformance.marks import Patch, mutant
from tfdist_kit.conformance.mutants._embedding_methods import changed, host_method, method


@mutant("tpu.step.traces", name="enqueue-makes-no-op")
def _(patch: Patch) -> None:
    method(patch, "_generate_enqueue_op", lambda found, self, *rest, **named: None)


@mutant("tpu.step.numbers", name="updates-are-too-large")
def _(patch: Patch) -> None:
    from tfdist_kit.adapters.tpu_embedding import applying

    def change(found: Any, optimizer: Any, variables: Any, ids: Any, gradients: Any) -> None:
        found(optimizer, variables, ids, 1.001 * gradients)

    changed(patch, applying, "update_rows", change)


@mutant("tpu.step.evaluation", name="lookups-wear-the-table-out")
def _(patch: Patch) -> None:
    def change(found: Any, self: Any) -> Any:
        for variables in self._variables.values():
            variables["parameters"].assign(0.9 * variables["parameters"])
        return found(self)

    host_method(patch, "dequeue", change)


@mutant("tpu.step.sum-of-gradients", name="gradients-are-averaged")
def _(patch: Patch) -> None:
    from tfdist_kit.adapters.tpu_embedding import applying

    def change(found: Any, strategy: Any, *rest: Any) -> Any:
        ids, gradients = found(strategy, *rest)
        return ids, gradients / strategy.num_replicas_in_sync

    changed(patch, applying, "summed", change)


@mutant("tpu.step.watched-activations", name="tapes-give-zeros-for-none")
def _(patch: Patch) -> None:
    import tensorflow as tf

    def change(found: Any, self: Any, target: Any, sources: Any) -> Any:
        return found(self, target, sources, unconnected_gradients="zero")

    changed(patch, tf.GradientTape, "gradient", change)


@mutant("tpu.step.training-without-gradients", name="gradients-may-be-missing")
def _(patch: Patch) -> None:
    def change(found: Any, self: Any) -> Any:
        activations = found(self)
        self.discard_batches()
        return activations

    host_method(patch, "dequeue", change)


@mutant("tpu.step.gradients-without-training", name="gradients-come-unasked")
def _(patch: Patch) -> None:
    host_method(patch, "apply_gradients", lambda found, self, gradients: None)


@mutant("tpu.step.dequeue-without-a-batch", name="dequeue-gives-zeros")
def _(patch: Patch) -> None:
    import tensorflow as tf

    host_method(patch, "dequeue", lambda found, self: tf.zeros([2, 2]))


@mutant("tpu.step.tuples", name="enqueue-passes-over-what-is-no-dictionary")
def _(patch: Patch) -> None:
    def change(found: Any, self: Any, features: Any, *rest: Any, **named: Any) -> None:
        if isinstance(features, dict):
            found(self, features, *rest, **named)

    method(patch, "enqueue", change)


@mutant("tpu.step.keras", name="apply-gradients-makes-no-op")
def _(patch: Patch) -> None:
    method(patch, "apply_gradients", lambda found, self, gradients: None)


@mutant("tpu.step.keras", name="keras-trains-nothing")
def _(patch: Patch) -> None:
    import keras

    patch(keras.optimizers.SGD, "apply_gradients", lambda found: lambda self, gradients: None)


@mutant("tpu.step.not-eager", name="anything-runs-eagerly")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import tpu_strategy

    changed(patch, tpu_strategy.TPUStrategyV2, "run", lambda found, self, body: body())
