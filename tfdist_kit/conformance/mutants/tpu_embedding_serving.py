"""Ways to break lookups for serving."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfdist_kit.conformance.marks import Patch, mutant

Function = Callable[..., Any]


@mutant("tpu.serving.same-as-lookup", name="ragged-weights-are-forgotten")
def _(patch: Patch) -> None:
    from tensorflow.python.tpu import tpu_embedding_for_serving

    def other(found: Function) -> Function:
        return lambda table, ragged, weights, combiner: found(table, ragged, None, combiner)

    patch(tpu_embedding_for_serving, "_ragged_embedding_lookup_with_reduce", other)


@mutant("tpu.serving.same-as-lookup", name="sparse-ids-are-always-averaged")
def _(patch: Patch) -> None:
    from tensorflow.python.ops import embedding_ops

    def other(found: Function) -> Function:
        return lambda *args, **named: found(*args, **{**named, "combiner": "mean"})

    patch(embedding_ops, "safe_embedding_lookup_sparse_v2", other)


@mutant("tpu.serving.subset", name="serving-wants-every-feature")
def _(patch: Patch) -> None:
    import tensorflow as tf

    def other(found: Function) -> Function:
        def look_up(inputs: Any, weights: Any, tables: Any, features: Any) -> Any:
            tf.nest.assert_same_structure(inputs, features)
            return found(inputs, weights, tables, features)

        return look_up

    patch(tf.tpu.experimental.embedding, "serving_embedding_lookup", other)


@mutant("tpu.serving.for-serving", name="serving-does-not-refuse-tpus")
def _(patch: Patch) -> None:
    from tensorflow.python.tpu import tpu_embedding_base, tpu_embedding_for_serving

    patch(
        tpu_embedding_for_serving.TPUEmbeddingForServing,
        "__init__",
        lambda found: tpu_embedding_base.TPUEmbeddingBase.__init__,
    )
