"""What is given to a lookup without a step, checked: features, weights, and specs of both.

features -> by path, as feature_config has them -> tensors of a kind that can be looked up
    -> ids that are rows of their table
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from tfdist_kit._errors import UsageError
from tfdist_kit.adapters._private import private
from tfdist_kit.adapters.tpu_embedding.replicas import tensors_of
from tfdist_kit.adapters.tpu_embedding.requiring import after, require
from tfdist_kit.adapters.tpu_embedding.structures import ALONE


def by_path(structure: Any) -> dict[str, Any]:
    """The leaves of a nested structure by path."""
    paths = private("tensorflow.python.util.nest", "flatten_with_joined_string_paths")
    return dict(paths(structure))


def features_by_path(configs: Mapping[str, Any], features: Any) -> dict[str, Any]:
    """The features by path.

    Args:
        configs: Each `FeatureConfig` by path.
        features: What is to be looked up, all of it or a part.

    Raises:
        UsageError: There is none, or one that ``feature_config`` lacks.
    """
    flat = by_path(features)
    if not flat:
        raise UsageError(
            f"features is {features!r}: there is no feature in it",
            hint=f"give some of the features, which are {_names(configs)}",
        )
    for path in sorted(flat.keys() - configs.keys()):
        _refuse_nested(path, configs, "")
        raise UsageError(
            f"features has {path!r}, which is not one of {_names(configs)}"
            if path
            else f"features is one {type(features).__name__}, where feature_config has "
            f"{_names(configs)}",
            hint="give the features of feature_config, or some of them",
        )
    return flat


def weights_by_path(features: Mapping[str, Any], weights: Any) -> dict[str, Any]:
    """The weights by path, of the features that have any.

    Raises:
        UsageError: One is of no feature that is given.
    """
    found = {} if weights is None else by_path(weights)
    for path in sorted(found.keys() - features.keys()):
        _refuse_nested(path, features, "the weight of ")
        raise UsageError(
            f"weights has {path!r}, but features has {_names(features)}"
            if path
            else f"weights is one {type(weights).__name__}, but features has {_names(features)}",
            hint="give weights the structure of features; those without may be left out",
        )
    return found


def _names(paths: Iterable[str]) -> str:
    return ", ".join(map(repr, filter(None, paths))) or f"one feature, {ALONE}"


def _refuse_nested(path: str, owners: Iterable[str], what: str) -> None:
    """Refuse parts where there should be one tensor; TensorFlow takes a list for such parts."""
    for owner in owners:
        if path and (not owner or path.startswith(f"{owner}/")):
            raise UsageError(
                f"{what}feature {owner or ALONE} has parts, such as {path!r}, where one tensor "
                "should be",
                hint="give a Tensor, SparseTensor or RaggedTensor; of a list make one with "
                "tf.constant",
            )


def check_specs(what: str, by_paths: Mapping[str, Any]) -> None:
    """Hold the leaves of a signature.

    Raises:
        UsageError: One is no spec of a tensor.
    """
    import tensorflow as tf

    kinds = (tf.TensorSpec, tf.SparseTensorSpec, tf.RaggedTensorSpec)
    for path, spec in by_paths.items():
        if not isinstance(spec, kinds):
            raise UsageError(
                f"the {what} of feature {path or ALONE} is of type {type(spec).__name__}",
                hint="give a tf.TensorSpec, tf.SparseTensorSpec or tf.RaggedTensorSpec for each; "
                "features without a weight are left out of weights",
            )


def checked(path: str, feature: Any, given: Any, weight: Any) -> Any:
    """The feature, once its ids are known to be rows.

    Args:
        path: Its path, for errors.
        feature: Its `FeatureConfig`.
        given: Its ids.
        weight: Their weights, or None.

    Returns:
        Its ids as int64; a dense feature's without their last axis.

    Raises:
        UsageError: It is of a kind that cannot be looked up.
        EmbeddingError: Its values are wrong, eagerly; see `require`.
    """
    import tensorflow as tf

    given = _tensor(path, given)
    if wrong := _wrong_kind(given) or _wrong_weight(given, weight):
        _refuse_kind(path, wrong)
    if isinstance(given, tf.Tensor):
        ids = tf.cast(given if given.shape.rank == 1 else given[..., 0], tf.int64)
        with after(_in_table(path, feature, ids)):
            return tf.identity(ids)
    ids = tf.cast(given.values, tf.int64)
    with after(_in_table(path, feature, ids)):
        ids = tf.identity(ids)
        if isinstance(given, tf.RaggedTensor):
            return given.with_values(ids)
        return tf.SparseTensor(given.indices, ids, given.dense_shape)


def _tensor(path: str, given: Any) -> Any:
    try:
        return tensors_of(given)
    except (TypeError, ValueError):
        _refuse_kind(path, f"is of type {type(given).__name__}")


def _refuse_kind(path: str, wrong: str) -> NoReturn:
    raise UsageError(
        f"feature {path} {wrong}",
        hint="give integer ids: dense [batch, 1], sparse of rank 2 or more, or ragged of rank 2; "
        "and weights of the same kind to sparse and ragged features alone",
    )


def _wrong_kind(given: Any) -> str:
    import tensorflow as tf

    kind = _kind(given)
    if kind is None:
        return f"is of type {type(given).__name__}"
    if not given.dtype.is_integer:
        return f"has ids of type {given.dtype.name}"
    rank = given.shape.rank
    if rank is None or rank < 1 + (kind is not tf.Tensor) or (rank > 2 and kind is tf.RaggedTensor):
        return f"is a {kind.__name__} of {'unknown rank' if rank is None else f'rank {rank}'}"
    if kind is tf.Tensor and rank > 1 and given.shape[-1] != 1:
        return f"is dense, of shape {given.shape}, whose last axis must be 1"
    return ""


def _kind(given: Any) -> Any:
    import tensorflow as tf

    kinds = (tf.SparseTensor, tf.RaggedTensor, tf.Tensor)
    return next((kind for kind in kinds if isinstance(given, kind)), None)


def _wrong_weight(given: Any, weight: Any) -> str:
    import tensorflow as tf

    if weight is None:
        return ""
    kind = _kind(given)
    if kind is tf.Tensor:
        return "is dense and has a weight"
    if not isinstance(weight, kind):
        return f"is a {kind.__name__}, its weight a {type(weight).__name__}"
    return ""


def _in_table(path: str, feature: Any, ids: Any) -> Any:
    import tensorflow as tf

    outside = (ids < 0) | (ids >= feature.table.vocabulary_size)
    return require(
        ~tf.reduce_any(outside),
        f"ids of feature {path} are not in table {feature.table.name}, which has "
        f"{feature.table.vocabulary_size} rows",
        "ids of a table go from 0 to vocabulary_size - 1",
        tf.boolean_mask(ids, outside),
    )
