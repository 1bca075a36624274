"""Ways to break build and dequeue."""

from __future__ import annotations

from typing import Any

from tfdist_kit.conformance.marks import Patch, mutant
from tfdist_kit.conformance.mutants._embedding_methods import changed, method
from tfdist_kit.conformance.mutants._tpu_embedding import embedding, utils


@mutant("tpu.build.tables-and-slots", name="adagrad-has-no-slots")
def _(patch: Patch) -> None:
    changed(patch, utils().Adagrad, "_create_slots", lambda found, self, *rest: {})


@mutant("tpu.build.twice", name="build-builds-again")
def _(patch: Patch) -> None:
    def change(found: Any, self: Any) -> None:
        self._built = False
        self._unconditional_checkpoint_dependencies.clear()
        self._self_unconditional_dependency_names.clear()
        found(self)

    method(patch, "build", change)


@mutant("tpu.build.without-arguments", name="build-wants-shapes")
def _(patch: Patch) -> None:
    def change(found: Any, self: Any, per_replica_input_shapes: Any) -> None:
        found(self, per_replica_input_shapes)

    method(patch, "build", change)


@mutant("tpu.build.shapes-needed", name="unknown-shapes-are-let-pass")
def _(patch: Patch) -> None:
    method(patch, "_check_output_shapes_fully_defined", lambda found, self: None)


@mutant("tpu.build.batch-size", name="batch-size-forgets-sequences")
def _(patch: Patch) -> None:
    from tensorflow.python.framework.tensor_shape import TensorShape

    def change(found: Any, self: Any, size: int) -> Any:
        return [TensorShape([size]) for _ in found(self, size)]

    method(patch, "_get_output_shapes_from_batch_size", change)


@mutant("tpu.build.sequence", name="build-forgets-sequences")
def _(patch: Patch) -> None:
    def change(found: Any, self: Any, shapes: Any) -> Any:
        return [one[:-1] for one in shapes]

    method(patch, "_get_output_shapes_from_input_shapes", change)


@mutant("tpu.build.by-enqueue", name="enqueue-does-not-build")
def _(patch: Patch) -> None:
    method(patch, "_maybe_build", lambda found, self, shapes=None: None)


@mutant("tpu.dequeue.structure", name="dequeue-gives-a-list")
def _(patch: Patch) -> None:
    import tensorflow as tf

    method(patch, "dequeue", lambda found, self: tf.nest.flatten(found(self)))


@mutant("tpu.dequeue.shape", name="dequeue-gives-rows")
def _(patch: Patch) -> None:
    import tensorflow as tf

    def rows(one: Any) -> Any:
        return tf.reshape(one, [-1, one.shape[-1]])

    method(patch, "dequeue", lambda found, self: tf.nest.map_structure(rows, found(self)))


@mutant("tpu.dequeue.unbuilt", name="dequeue-builds")
def _(patch: Patch) -> None:
    def change(found: Any, self: Any) -> Any:
        self._maybe_build()
        return found(self)

    method(patch, "dequeue", change)


@mutant("tpu.dequeue.pipelining-asked-for", name="pipelining-is-always-on")
def _(patch: Patch) -> None:
    embedding(patch, lambda **given: {**given, "pipeline_execution_with_tensor_core": True})
