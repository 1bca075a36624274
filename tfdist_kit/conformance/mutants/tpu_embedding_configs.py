"""Ways to break what the pages say of the configurations of tables and features."""

from __future__ import annotations

from typing import Any

from tfdist_kit.conformance.marks import Patch, mutant
from tfdist_kit.conformance.mutants._tpu_embedding import accepted, constructed, module, utils


@mutant("tpu.table-config.vocabulary-size", name="any-vocabulary-size-will-do")
def _(patch: Patch) -> None:
    accepted(patch, utils().TableConfig, vocabulary_size=4)


@mutant("tpu.table-config.dim", name="any-dim-will-do")
def _(patch: Patch) -> None:
    accepted(patch, utils().TableConfig, dim=4)


@mutant("tpu.table-config.initializer-not-callable", name="any-initializer-will-do")
def _(patch: Patch) -> None:
    accepted(patch, utils().TableConfig, initializer=None)


@mutant("tpu.table-config.default-initializer", name="default-initializer-is-narrow")
def _(patch: Patch) -> None:
    def other(found: Any) -> Any:
        return lambda mean, stddev: found(mean=mean, stddev=stddev * stddev)

    patch(utils().init_ops_v2, "TruncatedNormal", other)


@mutant("tpu.table-config.initializer-of-a-shard", name="shards-have-the-shape-of-the-table")
def _(patch: Patch) -> None:
    def other(found: Any) -> Any:
        return lambda hosts: found(hosts[:1])

    patch(module(), "make_sharded_variable_creator", other)


@mutant("tpu.table-config.combiner", name="any-combiner-will-do")
def _(patch: Patch) -> None:
    accepted(patch, utils().TableConfig, combiner="sum")


@mutant("tpu.table-config.dtype", name="any-dtype-will-do")
def _(patch: Patch) -> None:
    import tensorflow as tf

    accepted(patch, utils().TableConfig, dtype=tf.float32)


@mutant("tpu.quantization.buckets", name="any-number-of-buckets-will-do")
def _(patch: Patch) -> None:
    accepted(patch, utils().QuantizationConfig, num_buckets=2)


@mutant("tpu.quantization.lookup", name="buckets-are-one-more")
def _(patch: Patch) -> None:
    constructed(
        patch,
        utils().QuantizationConfig,
        lambda num_buckets, **more: {"num_buckets": num_buckets + 1, **more},
    )


@mutant("tpu.feature-config.table", name="any-table-will-do")
def _(patch: Patch) -> None:
    accepted(patch, utils().FeatureConfig, table=utils().TableConfig(4, 2))


@mutant("tpu.feature-config.max-sequence-length", name="any-max-sequence-length-will-do")
def _(patch: Patch) -> None:
    accepted(patch, utils().FeatureConfig, max_sequence_length=0)


@mutant("tpu.feature-config.validate-weights-and-indices", name="any-validation-will-do")
def _(patch: Patch) -> None:
    accepted(patch, utils().FeatureConfig, validate_weights_and_indices=True)


@mutant("tpu.feature-config.output-shape", name="output-shape-is-forgotten")
def _(patch: Patch) -> None:
    constructed(
        patch,
        utils().FeatureConfig,
        lambda output_shape, **more: {"output_shape": output_shape and output_shape[:1], **more},
    )


@mutant("tpu.feature-config.sequences", name="sequences-are-one-longer")
def _(patch: Patch) -> None:
    constructed(
        patch,
        utils().FeatureConfig,
        lambda max_sequence_length, **more: {
            "max_sequence_length": max_sequence_length + 1,
            **more,
        },
    )


@mutant(
    "tpu.feature-config.max-sequence-length-is-ignored", name="sequences-of-any-rank-are-filled"
)
def _(patch: Patch) -> None:
    import tensorflow as tf

    def other(found: Any) -> Any:
        def shapes(self: Any, input_shapes: Any) -> Any:
            longest = [
                each.max_sequence_length for each in module().nest.flatten(self._feature_config)
            ]
            return [
                tf.TensorShape([*shape[:-1], length]) if length else shape
                for shape, length in zip(found(self, input_shapes), longest, strict=True)
            ]

        return shapes

    patch(module().TPUEmbedding, "_get_output_shapes_from_input_shapes", other)


@mutant("tpu.relatives.outside", name="relatives-are-made-anywhere")
def _(patch: Patch) -> None:
    import tensorflow as tf

    kit = tf.tpu.experimental.embedding
    patch(kit.TPUEmbeddingV0, "__init__", lambda found: lambda *_, **named: None)
