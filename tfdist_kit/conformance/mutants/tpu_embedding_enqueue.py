"""Ways to break enqueue."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tfdist_kit.conformance.marks import Patch, mutant
from tfdist_kit.conformance.mutants._embedding_methods import (
    host_method,
    inferred,
    method,
    with_rows,
)
from tfdist_kit.conformance.mutants._tpu_embedding import module


@mutant("tpu.enqueue.structure", name="any-structure-will-do")
def _(patch: Patch) -> None:
    def other(nest: Any) -> Any:
        return SimpleNamespace(**{**vars(nest), "assert_same_structure": lambda *_: None})

    patch(module(), "nest", other)


@mutant("tpu.enqueue.dense-last-dimension", name="any-last-dimension-will-do")
def _(patch: Patch) -> None:
    inferred(patch, "tensor", lambda tensor: tensor.shape)


@mutant("tpu.enqueue.dense-shape", name="dense-features-are-of-rank-two")
def _(patch: Patch) -> None:
    inferred(patch, "tensor", lambda tensor: with_rows(tensor, 1))


@mutant("tpu.enqueue.sparse-rank", name="sparse-features-of-rank-one")
def _(patch: Patch) -> None:
    inferred(patch, "sparse_tensor", lambda tensor: with_rows(tensor, None))


@mutant("tpu.enqueue.sparse-shape", name="sparse-features-are-of-rank-two")
def _(patch: Patch) -> None:
    inferred(patch, "sparse_tensor", lambda tensor: with_rows(tensor, None))


@mutant("tpu.enqueue.sparse-sequence", name="sparse-sequences-of-one-are-none")
def _(patch: Patch) -> None:
    inferred(patch, "sparse_tensor", lambda tensor: tensor.shape)


@mutant("tpu.enqueue.ragged-shape", name="ragged-features-are-sequences")
def _(patch: Patch) -> None:
    inferred(patch, "ragged_tensor", lambda tensor: with_rows(tensor, 2, None))


@mutant("tpu.enqueue.ragged-sequence", name="ragged-features-are-no-sequences")
def _(patch: Patch) -> None:
    inferred(patch, "ragged_tensor", lambda tensor: with_rows(tensor, 1))


@mutant("tpu.enqueue.weights-of-dense", name="weights-of-dense-are-dropped")
def _(patch: Patch) -> None:
    def change(found: Any, self: Any, tensor: Any, weight: Any, *rest: Any) -> None:
        found(self, tensor, None, *rest)

    method(patch, "_add_data_for_tensor", change)


@mutant("tpu.enqueue.weights-of-another-type", name="weights-of-sparse-may-be-ragged")
def _(patch: Patch) -> None:
    import tensorflow as tf

    def change(found: Any, self: Any, tensor: Any, weight: Any, *rest: Any) -> None:
        found(self, tensor, None if isinstance(weight, tf.RaggedTensor) else weight, *rest)

    method(patch, "_add_data_for_sparse_tensor", change)


@mutant("tpu.enqueue.weights-for-some", name="weights-for-all-or-none")
def _(patch: Patch) -> None:
    def change(found: Any, self: Any, features: Any, weights: Any) -> None:
        if weights is not None and None in weights.values():
            raise ValueError("a weight is missing")
        found(self, features, weights)

    method(patch, "enqueue", change)


@mutant("tpu.enqueue.training-by-default", name="enqueue-does-not-train-by-default")
def _(patch: Patch) -> None:
    def other(found: Any) -> Any:
        def enqueue(self: Any, features: Any, weights: Any = None, training: bool = False) -> None:
            found(self, features, weights, training)

        return enqueue

    patch(module().TPUEmbedding, "enqueue", other)


@mutant("tpu.enqueue.direct-inputs", name="inputs-may-be-computed")
def _(patch: Patch) -> None:
    method(patch, "_raise_error_for_non_direct_inputs", lambda found, self, features: None)


@mutant("tpu.enqueue.nested-function", name="enqueue-in-a-nested-function")
def _(patch: Patch) -> None:
    name = "_raise_error_for_incorrect_control_flow_context"
    method(patch, name, lambda found, self: True)


@mutant("tpu.enqueue.in-the-step", name="enqueue-does-not-see-the-step")
def _(patch: Patch) -> None:
    name = "_raise_error_for_incorrect_control_flow_context"
    method(patch, name, lambda found, self: found(self) and False)


def _with_device(patch: Patch, change: Any) -> None:
    """Have enqueue be given another device."""

    def enqueue(found: Any, self: Any, features: Any, device: Any = None) -> None:
        found(self, features, device=change(device))

    method(patch, "enqueue", enqueue)


@mutant("tpu.enqueue.device-is-a-tpu", name="any-device-counts-as-a-tpu")
def _(patch: Patch) -> None:
    _with_device(patch, lambda device: device.replace("CPU", "TPU"))


@mutant("tpu.enqueue.device", name="enqueue-forgets-its-device")
def _(patch: Patch) -> None:
    _with_device(patch, lambda device: None)


@mutant("tpu.enqueue.per-replica", name="shapes-are-those-of-all-replicas")
def _(patch: Patch) -> None:
    from tensorflow.python.framework.tensor_shape import TensorShape

    def change(found: Any, self: Any, tensor: Any, *rest: Any) -> Any:
        first, *others = found(self, tensor, *rest)
        return TensorShape([first * self._strategy.num_replicas_in_sync, *others])

    method(patch, "_get_input_shape_for_tensor", change)


@mutant("tpu.enqueue.weights-scale", name="weights-are-forgotten")
def _(patch: Patch) -> None:
    def change(found: Any, self: Any, features: Any, weights: Any, training: bool) -> None:
        found(self, features, None, training)

    host_method(patch, "enqueue", change)


@mutant("tpu.enqueue.weights-scale", name="sqrtn-divides-by-the-sum")
def _(patch: Patch) -> None:
    import tensorflow as tf

    patch(tf, "sqrt", lambda found: tf.identity)


@mutant("tpu.enqueue.per-core", name="host-mode-forgets-the-device")
def _(patch: Patch) -> None:
    def change(found: Any, self: Any, features: Any, training: bool, device: str) -> None:
        found(self, features, training=training)

    host_method(patch, "enqueue", change)
