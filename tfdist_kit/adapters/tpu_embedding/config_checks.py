"""What TensorFlow's own config classes let pass and what then fails late, or never, or silently."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfdist_kit._errors import UsageError


def check_features(feature_config: Any) -> list[tuple[str, Any]]:
    """The flattened features with their paths.

    Raises:
        UsageError: There is none, or one that is not a right `FeatureConfig`.
    """
    from tensorflow.python.util import nest

    features = list(nest.flatten_with_joined_string_paths(feature_config))
    if not features:
        raise UsageError(
            f"feature_config is {feature_config!r}: there is no feature in it",
            hint="give a FeatureConfig, or a nested structure of them",
        )
    for path, feature in features:
        _check_feature(path, feature)
    return features


def _check_feature(path: str, feature: Any) -> None:
    import tensorflow as tf

    where = f"feature_config[{path}]" if path else "feature_config"
    if not isinstance(feature, tf.tpu.experimental.embedding.FeatureConfig):
        raise UsageError(
            f"{where} is a {type(feature).__name__}",
            hint="give a tf.tpu.experimental.embedding.FeatureConfig for each feature",
        )
    if isinstance(feature.max_sequence_length, bool):
        raise UsageError(
            f"max_sequence_length of {where} is {feature.max_sequence_length}",
            hint="give the length as a whole number; 0 for a feature that is no sequence",
        )
    if feature.output_shape.rank == 0:
        raise UsageError(
            f"output_shape of {where} is [], which no batch has",
            hint="leave output_shape out, or give the batch's shape: [batch] or [batch, length]",
        )


def check_tables(tables: Sequence[Any]) -> None:
    """Hold the tables, each once, in the order of first use.

    Raises:
        UsageError: One cannot work, or two have one name.
    """
    names: dict[str, int] = {}
    for number, table in enumerate(tables):
        name = f"table_{number}" if table.name is None else table.name
        _check_name(name)
        if name in names:
            raise UsageError(
                f"two tables, number {names[name]} and {number} in order of first use, have the "
                f"name {name!r}",
                hint="name each TableConfig differently; features share a table by having the "
                "same TableConfig object",
            )
        names[name] = number
        _check_table(name, table)


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not name:
        raise UsageError(
            f"the name of a table is {name!r}",
            hint="give TableConfig a text as name, or none for table_0, table_1 and so on",
        )


def _check_table(name: str, table: Any) -> None:
    for size in ("vocabulary_size", "dim"):
        if isinstance(getattr(table, size), bool):
            raise UsageError(
                f"{size} of table {name!r} is {getattr(table, size)}",
                hint="give a whole number, 1 or more",
            )
    check_optimizer(f"the optimizer of table {name!r}", table.optimizer)


def check_optimizer(what: str, optimizer: Any) -> None:
    """Refuse what is no optimizer for embeddings.

    Raises:
        UsageError: It is none.
    """
    from tfdist_kit.adapters._private import private

    kind = private("tensorflow.python.tpu.tpu_embedding_v2_utils", "_Optimizer")
    if optimizer is not None and not isinstance(optimizer, kind):
        given = optimizer.__name__ if isinstance(optimizer, type) else type(optimizer).__name__
        raise UsageError(
            f"{what} is {'the class ' if isinstance(optimizer, type) else 'a '}{given}",
            hint="give an instance of one of tf.tpu.experimental.embedding: SGD, Adagrad, "
            "AdagradMomentum, FTRL, Adam",
        )
