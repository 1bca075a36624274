"""Objects that hold tables, and what their checkpoints hold.

config() -> an object -> fill() -> saved() -> keys(), restored(), values()

Shards are made by TensorFlow's own creator of them, on two hosts that are both this CPU: what a
checkpoint of several TPU hosts holds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

ROWS, DIM = 5, 2
OPTIMIZERS = ("SGD", "Adagrad", "AdagradMomentum", "FTRL", "Adam")
Values = dict[str, list[list[float]]]


def optimizer(name: str = "Adagrad", *arguments: Any, **named: Any) -> Any:
    """One of TensorFlow's optimizers for embeddings."""
    import tensorflow as tf

    return getattr(tf.tpu.experimental.embedding, name)(*arguments, **named)


def config(
    rows: int = ROWS, name: str = "video", *, dim: int = DIM, combiner: str = "mean", **more: Any
) -> Any:
    """One feature and its table.

    Args:
        rows: The table's vocabulary_size.
        name: The table's name.
        dim: The table's width.
        combiner: The table's combiner.
        more: More of FeatureConfig.
    """
    import tensorflow as tf

    kinds = tf.tpu.experimental.embedding
    zeros = tf.zeros_initializer()
    table = kinds.TableConfig(rows, dim, initializer=zeros, combiner=combiner, name=name)
    return {"watched": kinds.FeatureConfig(table, **more)}


def variables(embedding: Any, name: str = "video") -> Any:
    """A table as ``parameters`` and its slot variables by name; made if they are not yet."""
    assert embedding.embedding_tables
    return embedding._variables[name]


def fill(embedding: Any, name: str = "video") -> Values:
    """Give every variable values of its own, and tell them."""
    import tensorflow as tf

    for number, (_, variable) in enumerate(sorted(variables(embedding, name).items()), 1):
        count = variable.shape.num_elements()
        numbers = tf.range(count, dtype=tf.float32) + 100.0 * number
        variable.assign(tf.reshape(numbers, variable.shape))
    return values(embedding, name)


def values(embedding: Any, name: str = "video") -> Values:
    """What is in each variable."""
    return {slot: _whole(one) for slot, one in sorted(variables(embedding, name).items())}


def _whole(variable: Any) -> list[list[float]]:
    import tensorflow as tf

    parts = getattr(variable, "variables", [variable])  # of one that is in shards
    return list(tf.concat([tf.convert_to_tensor(part) for part in parts], axis=0).numpy().tolist())


def stock(optimizer: Any, **table: Any) -> Any:
    """TensorFlow's own TPUEmbedding, which here only holds tables."""
    import tensorflow as tf

    return tf.tpu.experimental.embedding.TPUEmbedding(config(**table), optimizer)


def for_serving(optimizer: Any, **table: Any) -> Any:
    """A TPUEmbeddingForServing."""
    import tensorflow as tf

    return tf.tpu.experimental.embedding.TPUEmbeddingForServing(config(**table), optimizer)


def sharded(optimizer: Any, **table: Any) -> Any:
    """A TPUEmbedding whose tables are in shards over two hosts."""
    import tensorflow as tf
    from tensorflow.python.tpu import tpu_embedding_v2

    made = stock(optimizer, **table)
    with tf.variable_creator_scope(tpu_embedding_v2.make_sharded_variable_creator(["CPU:0"] * 2)):
        assert made.embedding_tables
    return made


def saved(embedding: Any, folder: Path) -> str:
    """The path of a checkpoint that holds an object."""
    import tensorflow as tf

    return str(tf.train.Checkpoint(embedding=embedding).save(str(folder / "step")))


def keys(path: str) -> dict[str, list[int]]:
    """The shape of each variable of the object in a checkpoint, by its key without ending."""
    import tensorflow as tf

    shapes = tf.train.load_checkpoint(path).get_variable_to_shape_map()
    ending = "/.ATTRIBUTES/VARIABLE_VALUE"
    return {
        key.removesuffix(ending): shape
        for key, shape in shapes.items()
        if key.startswith("embedding/")
    }


def read(path: str, key: str) -> list[list[float]]:
    """What a checkpoint holds under a key."""
    import tensorflow as tf

    tensor = tf.train.load_checkpoint(path).get_tensor(f"{key}/.ATTRIBUTES/VARIABLE_VALUE")
    return list(tensor.tolist())


def restored(embedding: Any, path: str) -> Any:
    """Restore an object; the status of that is returned."""
    import tensorflow as tf

    return tf.train.Checkpoint(embedding=embedding).restore(path)
