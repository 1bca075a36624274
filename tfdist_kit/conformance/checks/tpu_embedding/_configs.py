"""Small tables and features, and what is seen of an embedding that is made of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def kit() -> Any:
    """TensorFlow's module of embeddings for a TPU."""
    import tensorflow as tf

    return tf.tpu.experimental.embedding


def table(rows: Any = 4, dim: Any = 2, **arguments: Any) -> Any:
    """A TableConfig.

    Args:
        rows: The size of its vocabulary.
        dim: Its width.
        arguments: More of TensorFlow's class.
    """
    return kit().TableConfig(vocabulary_size=rows, dim=dim, **arguments)


def feature(of: Any = None, **arguments: Any) -> Any:
    """A FeatureConfig.

    Args:
        of: Its table; a small one named ``user`` if not given.
        arguments: More of TensorFlow's class.
    """
    return kit().FeatureConfig(table=of or table(name="user"), **arguments)


def counted(rows: int, dim: int) -> Callable[..., Any]:
    """An initializer: row ``i`` of the table is ``i`` everywhere."""
    import tensorflow as tf

    values = tf.repeat(tf.range(float(rows))[:, None], dim, axis=1)
    return lambda shape, dtype=None, **_: tf.ensure_shape(
        tf.cast(values, dtype or "float32"), shape
    )


@contextmanager
def created() -> Iterator[list[Any]]:
    """The variables that are created meanwhile, in their order."""
    import tensorflow as tf

    found: list[Any] = []

    def note(next_creator: Any, **arguments: Any) -> Any:
        found.append(next_creator(**arguments))
        return found[-1]

    with tf.variable_creator_scope(note):
        yield found


def names(variables: list[Any]) -> list[str]:
    """The names of variables, as they were given."""
    return [re.sub(r":\d+$", "", variable.name) for variable in variables]


def saved(embedding: Any, folder: Path) -> Mapping[str, list[int]]:
    """What a checkpoint holds of an embedding: the shape of each variable, by its key.

    Args:
        embedding: The embedding, which the checkpoint calls ``embedding``.
        folder: Where the checkpoint is written to.
    """
    import tensorflow as tf

    path = tf.train.Checkpoint(embedding=embedding).write(str(folder / "checkpoint"))
    ending = "/.ATTRIBUTES/VARIABLE_VALUE"
    return {
        name.removesuffix(ending): shape
        for name, shape in tf.train.list_variables(path)
        if name.endswith(ending) and name.startswith("embedding/")
    }
