"""Data that a program distributes so that it is fetched to the TPU, while enqueue needs it here.

TensorFlow asks its strategy about a dataset's elements just where they are to be fetched to the
device. It then looks at a bare sparse or ragged element only, never into a dict or a tuple.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tfdist_kit.adapters._private import private
from tfdist_kit.adapters.tpu_embedding.tracing.needs import VALUES


@contextmanager
def noticed(strategy: Any) -> Iterator[list[Any]]:
    """The element specs of all datasets that `strategy` is asked to fetch to the device."""
    seen: list[Any] = []
    own = strategy.extended._check_spec

    def check_spec(element_spec: Any) -> None:
        own(element_spec)
        seen.append(element_spec)

    strategy.extended._check_spec = check_spec
    try:
        yield seen
    finally:
        del strategy.extended._check_spec


def ids_in(element_spec: Any, feature_config: Any) -> list[str]:
    """The features that an element has: its sparse and ragged values, or those for enqueue."""
    import tensorflow as tf

    uneven = [
        f"{type(spec).__name__} {spec.shape}"
        for spec in _leaves(element_spec)
        if isinstance(spec, (tf.SparseTensorSpec, tf.RaggedTensorSpec))
    ]
    return uneven or _dense_ids(element_spec, feature_config)


def _leaves(element_spec: Any) -> Iterator[Any]:
    """All specs of one core."""
    import tensorflow as tf

    per_replica = private(VALUES, "PerReplicaSpec")
    for spec in tf.nest.flatten(element_spec):
        if isinstance(spec, per_replica):
            yield from tf.nest.flatten(spec._value_specs[0])
        else:
            yield spec


def _dense_ids(element_spec: Any, feature_config: Any) -> list[str]:
    """The values of the part of an element that is nested as the features are."""
    import tensorflow as tf

    try:
        tf.nest.assert_same_structure(feature_config, element_spec)
        leaves = list(_leaves(element_spec))
        is_ids = all(spec.dtype.is_integer for spec in leaves)
        return [f"TensorSpec {spec.shape}" for spec in leaves] if is_ids else []
    except (TypeError, ValueError):
        pass
    if isinstance(element_spec, dict):
        element_spec = list(element_spec.values())
    parts = element_spec if isinstance(element_spec, (list, tuple)) else []
    return next(filter(None, (_dense_ids(part, feature_config) for part in parts)), [])
