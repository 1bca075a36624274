"""The output shapes of an embedding's features, and who said what when they conflict.

FeatureConfig.output_shape > build(per_replica_input_shapes) > the first enqueue()

TensorFlow's own rules make output shapes of input shapes; this adds that lists are shapes too, and
an error that names the feature, both shapes, where each came from, and what to change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.util import nest

from tfdist_kit._errors import UsageError
from tfdist_kit.adapters._private import private
from tfdist_kit.adapters.tpu_embedding import replicas
from tfdist_kit.adapters.tpu_embedding.structures import named_features

_MODULE = "tensorflow.python.tpu.tpu_embedding_v2"
_CONFIG, _BUILD, _ENQUEUE = "FeatureConfig.output_shape", "build()", "the first enqueue()"


class Shapes:
    """The shapes of one embedding.

    Args:
        embedding: The `TPUEmbedding`, whose rules and state are used.
    """

    def __init__(self, embedding: Any) -> None:
        for name in (
            "_check_output_shapes",
            "_get_input_shapes",
            "_get_output_shapes_from_batch_size",
            "_get_output_shapes_from_input_shapes",
            "_update_output_shapes",
        ):
            private(_MODULE, "TPUEmbedding", name)
        self._embedding = embedding
        named = named_features(embedding._feature_config)
        self._paths, self._configs = zip(*named, strict=True)
        self._said = [_CONFIG if config.output_shape else "" for config in self._configs]

    @property
    def known(self) -> list[list[int]] | None:
        """The output shape of each feature; None until all are fully defined."""
        shapes = self._embedding._output_shapes
        if not all(shape.is_fully_defined() for shape in shapes):
            return None
        return [shape.as_list() for shape in shapes]

    def from_build(self, input_shapes: Any, batch_size: int | None) -> None:
        """Take the shapes that were given to build().

        Raises:
            UsageError: They conflict, are not built like feature_config, or not fully defined.
        """
        if input_shapes is None and batch_size is None:
            return
        if input_shapes is None or isinstance(input_shapes, int):
            size = batch_size if input_shapes is None else input_shapes
            output = self._embedding._get_output_shapes_from_batch_size(size)
        else:
            output = self._output(self._flat(input_shapes))
        self._merge(output, _BUILD)

    def from_enqueue(self, features: Any, device: str | None, in_replica: bool) -> None:
        """Hold a batch's shapes against those that are known, and take those that are not.

        Raises:
            UsageError: They conflict, a feature has a rank or last dimension that cannot be
                looked up, or the output shape of one remains unknown.
        """
        for path, feature in zip(self._paths, nest.flatten(features), strict=True):
            local = self._embedding._strategy.experimental_local_results(feature)
            _check_rank(path, local[0])
        inputs = self._embedding._get_input_shapes(features, device is None, in_replica)
        self._merge(self._output([_with_any_batch(shape) for shape in inputs]), _ENQUEUE)

    def tensors_of(self, features: Sequence[Any]) -> list[Any]:
        """The flattened features as tensors, or distributed values of them.

        Raises:
            UsageError: One is no tensor and cannot become one.
        """
        named = zip(self._paths, features, strict=True)
        return [_tensor_of(path, feature) for path, feature in named]

    def _output(self, inputs: list[tf.TensorShape]) -> list[tf.TensorShape]:
        return list(self._embedding._get_output_shapes_from_input_shapes(inputs))

    def _flat(self, shapes: Any) -> list[tf.TensorShape]:
        config = self._embedding._feature_config
        flat = isinstance(shapes, list) and len(shapes) == len(self._paths)
        try:
            leaves = nest.flatten_up_to(config, shapes, check_types=False)
        except (TypeError, ValueError) as error:
            if not flat:  # TensorFlow takes a flat list for any structure
                raise UsageError(
                    f"per_replica_input_shapes is not built like feature_config: {error}",
                    hint=f"give one shape for each of {', '.join(self._paths)}",
                ) from error
            leaves = shapes
        return [self._shape(*each) for each in zip(self._paths, leaves, strict=True)]

    def _shape(self, path: str, given: Any) -> tf.TensorShape:
        try:
            return tf.TensorShape(given)
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"the input shape of feature {path} is {given!r}",
                hint="give a list of sizes, such as [batch, 1], or a tf.TensorShape",
            ) from error

    def _merge(self, incoming: list[tf.TensorShape], said: str) -> None:
        mine = self._embedding._output_shapes
        try:
            self._embedding._check_output_shapes(incoming)
        except ValueError as error:
            raise UsageError(
                self._conflict(incoming, said) or str(error),
                hint="FeatureConfig.output_shape goes before build(), and build() before what "
                "enqueue() sees, all by replica: change the one that is wrong",
            ) from error
        # Also as TensorFlow has it: what was said before is not completed, though its page says so.
        merged = [
            old if old.rank is not None else new for old, new in zip(mine, incoming, strict=True)
        ]
        who = [old or said for old in self._said]
        self._check_defined(merged, who)
        self._embedding._output_shapes, self._said = merged, who

    def _check_defined(self, shapes: list[tf.TensorShape], who: list[str]) -> None:
        for path, shape, said in zip(self._paths, shapes, who, strict=True):
            if not shape.is_fully_defined():
                raise UsageError(
                    f"feature {path} has the output shape {shape} from {said}, which is not fully "
                    "defined",
                    hint="make batches of one size (drop_remainder=True), call build() with the "
                    "input shapes of one replica, or give the FeatureConfig a whole output_shape",
                )

    def _conflict(self, incoming: list[tf.TensorShape], said: str) -> str:
        mine = self._embedding._output_shapes
        for path, who, old, new in zip(self._paths, self._said, mine, incoming, strict=True):
            if old and new and not old.is_compatible_with(new):
                now = "this enqueue()" if said == _ENQUEUE else said
                return (
                    f"feature {path} has the output shape {old} from {who or 'before'}, but {new} "
                    f"from {now}"
                )
        return ""


def _tensor_of(path: str, given: Any) -> Any:
    try:
        return replicas.tensors_of(given)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"feature {path} is {'None' if given is None else f'a {type(given).__name__}'}",
            hint="give a Tensor, SparseTensor or RaggedTensor of ids for each feature; one "
            "without ids may be ragged, of empty rows",
        ) from error


def _check_rank(path: str, given: Any) -> None:
    if wrong := _wrong_rank(given):
        raise UsageError(
            f"feature {path} {wrong}",
            hint="give dense ids of shape [batch] or [..., 1], sparse ones of rank 2 or more, or "
            "ragged ones of rank 2; a tf.TensorSpec or tf.ensure_shape() tells TensorFlow a rank",
        )


def _wrong_rank(given: Any) -> str:
    if not isinstance(given, (tf.Tensor, tf.SparseTensor, tf.RaggedTensor)):
        return f"is of unknown type {type(given).__name__}"
    rank = given.shape.rank
    if rank is None:
        return "has ids of unknown rank"
    if isinstance(given, tf.SparseTensor):
        return f"is sparse, of rank {rank}" if rank < 2 else ""
    if isinstance(given, tf.RaggedTensor):
        return f"is ragged, of rank {rank}" if rank != 2 else ""
    if rank == 0:
        return "is one number"
    is_wide = rank > 1 and given.shape[-1] != 1
    return f"is dense, of shape {given.shape}, whose last dimension must be 1" if is_wide else ""


def _with_any_batch(shape: tf.TensorShape) -> tf.TensorShape:
    """A batch without samples, which a worker gets when its data is over, is of any size."""
    return tf.TensorShape([None, *shape[1:]]) if shape[0] == 0 else shape
