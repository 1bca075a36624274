"""An embedding's configs, copied before TensorFlow writes into them, and checked.

feature_config, optimizer -> is each what it must be? -> copies, in which shared tables stay shared
    -> an initializer that knows only the shape is given a second argument to ignore

TensorFlow's class writes the name and the optimizer into the caller's own `TableConfig`, so that a
second embedding of the same configs silently keeps the first one's optimizer.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tfdist_kit._errors import UsageError
from tfdist_kit.adapters.tpu_embedding.config_checks import (
    check_features,
    check_optimizer,
    check_tables,
)


@dataclass(frozen=True)
class Configs:
    """Copies of what was given.

    Attributes:
        features: The copied structure of `FeatureConfig`.
        optimizer: A copy, or None.
        originals: Each copied `TableConfig` with the caller's own, in the order of first use.
    """

    features: Any
    optimizer: Any
    originals: tuple[tuple[Any, Any], ...]


def copied(feature_config: Any, optimizer: Any) -> Configs:
    """Check and copy an embedding's configs.

    Args:
        feature_config: A `FeatureConfig`, or a nested structure of them.
        optimizer: The optimizer of the tables that have none of their own; or None.

    Raises:
        UsageError: One of them cannot work; names it.
    """
    import tensorflow as tf

    features = check_features(feature_config)
    check_optimizer("optimizer", optimizer)
    tables: dict[int, tuple[Any, Any]] = {}
    for _, feature in features:
        if id(feature.table) not in tables:
            tables[id(feature.table)] = (_table(feature.table), feature.table)
    check_tables([original for _, original in tables.values()])

    def with_copy(feature: Any) -> Any:
        feature = copy.copy(feature)
        feature.table = tables[id(feature.table)][0]
        return feature

    return Configs(
        tf.nest.map_structure(with_copy, feature_config),
        copy.copy(optimizer),
        tuple(tables.values()),
    )


def _table(original: Any) -> Any:
    table = copy.copy(original)
    table.optimizer = copy.copy(original.optimizer)
    table.initializer = _initializer(original)
    return table


def _initializer(table: Any) -> Any:
    """TensorFlow calls it with a dtype too, although its own page says only the shape is given."""
    given = table.initializer
    if inspect.isclass(given):
        raise UsageError(
            f"the initializer of table {table.name!r} is the class {given.__name__} itself",
            hint=f"give an instance: initializer={given.__name__}(...)",
        )
    if _takes(given, (), dtype=None):
        return given
    if _takes(given, ()):
        return _with_dtype(given)
    raise UsageError(
        f"the initializer of table {table.name!r} cannot be called with a shape alone",
        hint="give a function of the shape, or of the shape and dtype=",
    )


def _takes(function: Callable[..., Any], *args: Any, **kwargs: Any) -> bool:
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        return False
    except ValueError:  # a built-in function, which does not tell its arguments
        return True
    return True


def _with_dtype(function: Callable[[Any], Any]) -> Callable[..., Any]:
    def initializer(shape: Any, dtype: Any = None) -> Any:
        import tensorflow as tf

        return tf.cast(function(shape), dtype or tf.float32)

    return initializer
