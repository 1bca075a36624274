"""Ways to break where the shapes of features come from."""

from __future__ import annotations

from typing import Any

from tfdist_kit.conformance.marks import Patch, mutant
from tfdist_kit.conformance.mutants._embedding_methods import inferred, method


@mutant("tpu.shapes.dense-and-sparse", name="sparse-features-have-rank-two")
def _(patch: Patch) -> None:
    def change(found: Any, self: Any, tensor: Any, *rest: Any) -> Any:
        if tensor.shape.rank > 2:
            raise ValueError("only rank 2")
        return found(self, tensor, *rest)

    method(patch, "_get_input_shape_for_sparse_tensor", change)


@mutant("tpu.shapes.ragged-rank", name="ragged-features-have-any-rank")
def _(patch: Patch) -> None:
    inferred(patch, "ragged_tensor", lambda tensor: tensor.shape[:2])


@mutant("tpu.shapes.ragged-output-shape", name="ragged-features-are-not-reshaped")
def _(patch: Patch) -> None:
    def change(found: Any, self: Any, incoming: Any) -> None:
        ranks = zip(self._output_shapes, incoming, strict=True)
        if any((old.rank or 0) > new.rank for old, new in ranks):
            raise ValueError("another rank")
        found(self, incoming)

    method(patch, "_check_output_shapes", change)


@mutant("tpu.shapes.priority", name="the-latest-shape-wins")
def _(patch: Patch) -> None:
    def change(found: Any, self: Any, incoming: Any) -> None:
        self._output_shapes = incoming

    method(patch, "_update_output_shapes", change)


@mutant("tpu.shapes.without-last-dimension", name="build-keeps-the-last-dimension")
def _(patch: Patch) -> None:
    method(patch, "_get_output_shapes_from_input_shapes", lambda found, self, shapes: shapes)


@mutant("tpu.shapes.conflict", name="conflicting-shapes-pass")
def _(patch: Patch) -> None:
    method(patch, "_check_output_shapes", lambda found, self, incoming: None)


@mutant("tpu.shapes.unset", name="unset-shapes-stay-unset")
def _(patch: Patch) -> None:
    method(patch, "_update_output_shapes", lambda found, self, incoming: None)


@mutant("tpu.shapes.later-calls", name="later-calls-are-not-compared")
def _(patch: Patch) -> None:
    def change(found: Any, self: Any, incoming: Any) -> None:
        if not self._built:
            found(self, incoming)

    method(patch, "_check_output_shapes", change)


@mutant("tpu.shapes.not-inferable", name="unknown-shapes-are-of-one")
def _(patch: Patch) -> None:
    from tensorflow.python.framework.tensor_shape import TensorShape

    def change(found: Any, self: Any) -> None:
        self._output_shapes = [TensorShape([n or 1 for n in one]) for one in self._output_shapes]

    method(patch, "_check_output_shapes_fully_defined", change)
