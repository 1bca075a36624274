"""Lookups from an embedding's tables where there is no step: evaluation by hand, and serving.

features, weights -> serving_checks.py: can they be looked up, are the ids rows of their tables?
    -> TensorFlow's own serving lookup, where it gives what a TPU gives
    -> else combined.py: weights, quantization
    -> activations of the TPU's shapes
export -> the tables and that lookup as a SavedModel, without slots
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from tfdist_kit._errors import UsageError
from tfdist_kit.adapters._private import private
from tfdist_kit.adapters.tpu_embedding.combined import combined
from tfdist_kit.adapters.tpu_embedding.embeddings import require_embedding
from tfdist_kit.adapters.tpu_embedding.serving_checks import (
    by_path,
    check_specs,
    checked,
    features_by_path,
    weights_by_path,
)
from tfdist_kit.adapters.tpu_embedding.structures import ALONE


def serving_lookup(embedding: Any, features: Any, weights: Any = None) -> Any:
    """Look features up as `dequeue` would, without `enqueue` and without a TPU.

    TensorFlow's `serving_embedding_lookup` differs from what a TPU gives. Here a dense feature
    loses its last axis, which is 1, with ``max_sequence_length`` too; sequences may have weights;
    weights of zero and below count under 'mean' and 'sqrtn'; simulated quantization is applied;
    samples without ids at the end of a batch stay. The batch's size may be unknown.

    Args:
        embedding: A `TPUEmbedding` of any kind or a `TPUEmbeddingForServing`, off a TPU.
        features: As `enqueue` takes them, or a dict with some of the features.
        weights: None, or of the same structure; None for a feature without, or a dict that lacks
            it.

    Returns:
        Activations in the structure of `features`, float32 ``[*output_shape, dim]``.

    Raises:
        UsageError: A feature is unknown, or of a kind that cannot be looked up.
        EmbeddingError: An id is no row of its table, weights have other splits or indices than
            their ids, or a feature does not fit its output shape. In a graph, and in a
            SavedModel, it is TensorFlow's `InvalidArgumentError` with the same text.
    """
    import tensorflow as tf

    return tf.autograph.experimental.do_not_convert(_lookup)(embedding, features, weights)


def _lookup(embedding: Any, features: Any, weights: Any) -> Any:
    require_embedding(embedding)
    configs = by_path(embedding._feature_config)
    flat = features_by_path(configs, features)
    weights = weights_by_path(flat, weights)
    tables = embedding.embedding_tables
    found = [
        _looked_up(path, configs[path], tables[configs[path].table], given, weights.get(path))
        for path, given in flat.items()
    ]
    return private("tensorflow.python.util.nest", "pack_sequence_as")(features, found)


def export(
    embedding: Any,
    folder: str | os.PathLike[str],
    features: Any,
    *,
    weights: Any = None,
    then: Callable[[Any], Any] | None = None,
) -> None:
    """Write the tables and their lookup as a SavedModel, which needs nothing but TensorFlow.

    What is loaded from it has the function ``lookup``, called with the features (and the weights,
    if there are any). The slots are left out. If the features are a dict of dense ones, there is
    the signature "serving_default" too, with their names.

    Under several workers let one of them write: ``save(strategy, lambda path: export(...))``.

    Args:
        embedding: As for `serving_lookup`.
        folder: Where to write.
        features: The structure of features, a `tf.TensorSpec`, `tf.SparseTensorSpec` or
            `tf.RaggedTensorSpec` for each; the batch's size may be None.
        weights: The same for the features that have weights; a dict may leave the others out.
        then: What makes the activations into the answer, such as a model; its variables are saved
            too. None for the activations themselves.

    Raises:
        UsageError: A feature is unknown, or of a kind that cannot be looked up; or there is none.
            Nothing is written then.
    """
    import tensorflow as tf

    _check_export(embedding, folder, features, weights, then)
    module = tf.Module()
    tables = embedding.embedding_tables
    module.tables = {table.name: tables[table] for table in embedding._table_config}
    module.then = then
    signature = [features] if weights is None else [features, weights]

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def lookup(*given: Any) -> Any:
        activations = serving_lookup(embedding, *given)
        return activations if then is None else then(activations)

    module.lookup = tf.function(lookup, input_signature=signature)
    tf.saved_model.save(module, os.fspath(folder), _signatures(module.lookup, features, weights))


def _check_export(embedding: Any, folder: Any, features: Any, weights: Any, then: Any) -> None:
    require_embedding(embedding)
    if not isinstance(folder, (str, os.PathLike)):
        raise UsageError(f"folder is {folder!r}", hint="give the path of the folder to write")
    if then is not None and not callable(then):
        raise UsageError(
            f"then is {then!r}", hint="give a function of the activations, such as a model"
        )
    flat = features_by_path(by_path(embedding._feature_config), features)
    check_specs("spec", flat)
    check_specs("spec of the weights", weights_by_path(flat, weights))


def _signatures(lookup: Any, features: Any, weights: Any) -> dict[str, Any]:
    """A signature has only tensors with names, which is what a dict of dense features is."""
    import tensorflow as tf

    dense = isinstance(features, dict) and all(
        isinstance(spec, tf.TensorSpec) for spec in features.values()
    )
    if not dense or weights is not None:
        return {}
    named = {
        name: tf.TensorSpec(spec.shape, spec.dtype, name=name) for name, spec in features.items()
    }
    serve = tf.function(lambda **given: lookup(given), autograph=False)  # errors as they are
    return {"serving_default": serve.get_concrete_function(**named)}


def _looked_up(path: str, feature: Any, table: Any, given: Any, weight: Any) -> Any:
    import tensorflow as tf

    path = path or ALONE
    given = checked(path, feature, given, weight)
    if _agrees(feature, given, weight):
        lookup = tf.tpu.experimental.embedding.serving_embedding_lookup
        found = lookup(given, None, {feature.table: table}, feature)
    else:
        found = combined(path, feature, table, given, weight)
    return _shaped(path, feature, found)


def _agrees(feature: Any, given: Any, weight: Any) -> bool:
    """Whether TensorFlow's lookup gives what a TPU gives."""
    import tensorflow as tf

    if isinstance(given, tf.Tensor) and feature.max_sequence_length:
        return False
    if isinstance(given, tf.SparseTensor) and not feature.validate_weights_and_indices:
        return False  # samples without ids at the end are cut off
    if isinstance(given, tf.RaggedTensor) and feature.output_shape:
        return False  # the batch's size must be known
    return weight is None and feature.table.quantization_config is None


def _shaped(path: str, feature: Any, found: Any) -> Any:
    import tensorflow as tf

    if not feature.output_shape:
        return found
    wanted = [*feature.output_shape, feature.table.dim]
    if not found.shape.is_compatible_with(wanted):
        raise UsageError(
            f"feature {path} gives activations of shape {found.shape}, but by output_shape it "
            f"is {wanted}",
            hint="give a batch of the size that output_shape says",
        )
    return tf.ensure_shape(found, wanted)
