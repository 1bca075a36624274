"""What a checkpoint holds, read from it alone: its objects, their variables, its embeddings.

a checkpoint's path -> TensorFlow's reader -> the graph of objects that is saved in it
    -> an embedding's tables, with the key of each table and slot
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfdist_kit._errors import EmbeddingError, UsageError
from tfdist_kit.adapters._private import private

Shape = tuple[int, ...]


@dataclass(frozen=True)
class SavedObject:
    """One object of a checkpoint.

    Attributes:
        children: The number of each object that it refers to, by name.
        key: Under which key its value is saved; "" for an object without a value.
    """

    children: Mapping[str, int]
    key: str


@dataclass(frozen=True)
class SavedGraph:
    """All objects of a checkpoint.

    Attributes:
        path: The checkpoint.
        objects: The objects; number 0 is the one that was saved.
        shapes: The shape of each value, by its key.
        reader: TensorFlow's reader of the checkpoint.
    """

    path: str
    objects: tuple[SavedObject, ...]
    shapes: Mapping[str, Shape]
    reader: Any

    def child(self, number: int | None, name: str) -> int | None:
        """The number of what an object has under this name; None if it has nothing."""
        return None if number is None else self.objects[number].children.get(name)

    def shape(self, number: int | None) -> Shape | None:
        """The shape of an object's value; None for an object without one."""
        return None if number is None else self.shapes.get(self.objects[number].key)

    def tables(self, number: int | None) -> dict[str, dict[str, int]]:
        """An embedding's tables: for each "parameters" and its slots, with their numbers."""
        named = self.child(number, "_variables")
        if named is None:
            return {}
        tables = self.objects[named].children
        return {name: dict(self.objects[each].children) for name, each in tables.items()}

    def embeddings(self) -> dict[int, str]:
        """The embeddings whose tables are in the checkpoint: each number, and where it lies."""
        places, waiting = {0: ""}, [0]
        while waiting:
            number = waiting.pop(0)
            for name, child in self.objects[number].children.items():
                if child not in places:
                    places[child] = f"{places[number]}/{name}".lstrip("/")
                    waiting.append(child)
        return {
            number: place
            for number, place in places.items()
            if self.child(number, "_table_config") is not None and self.tables(number)
        }


def read_graph(path: str | os.PathLike[str]) -> SavedGraph:
    """Read what a checkpoint holds, but no variable's value.

    Args:
        path: The checkpoint, or a folder, in which the newest is taken.

    Raises:
        UsageError: There is no checkpoint, or one without objects.
        EmbeddingError: It is damaged, as far as that is seen without the variables' values.
    """
    found = found_checkpoint(path)
    with damage_told(found):
        return _graph(found)


@contextmanager
def damage_told(path: str) -> Iterator[None]:
    """Make an error of TensorFlow's own, while it reads a checkpoint, into one that says so.

    Raises:
        EmbeddingError: There was one.
    """
    import tensorflow as tf

    try:
        yield
    except (tf.errors.OpError, IndexError) as error:
        said = getattr(error, "message", None) or error
        raise EmbeddingError(
            f"{path} cannot be read, so it is damaged or not complete: {said}",
            hint="restore one that was saved before it; if a save or a copy may still go on, wait "
            "for its end",
        ) from error


def _graph(found: str) -> SavedGraph:
    import tensorflow as tf

    reader = tf.train.load_checkpoint(found)
    key = private("tensorflow.python.trackable.base", "OBJECT_GRAPH_PROTO_KEY")
    if not reader.has_tensor(key):
        raise UsageError(
            f"{found} was saved by names, not by objects",
            hint="give what tf.train.Checkpoint has saved",
        )
    graph = private(
        "tensorflow.core.protobuf.trackable_object_graph_pb2", "TrackableObjectGraph"
    ).FromString(reader.get_tensor(key))
    shapes = {name: tuple(shape) for name, shape in reader.get_variable_to_shape_map().items()}
    return SavedGraph(found, tuple(_object(node) for node in graph.nodes), shapes, reader)


def found_checkpoint(path: str | os.PathLike[str]) -> str:
    """The checkpoint at this path, or the newest in this folder."""
    import tensorflow as tf

    if not isinstance(path, (str, os.PathLike)):
        raise UsageError(
            f"the checkpoint's path is {path!r}",
            hint="give what Checkpoint.save has returned, or its folder; where there is no "
            "checkpoint tf.train.latest_checkpoint returns None",
        )
    where = Path(path)
    newest = tf.train.latest_checkpoint(str(where)) if where.is_dir() else None
    found = str(where) if newest is None else str(newest)
    if not Path(f"{found}.index").exists():
        raise UsageError(
            f"there is no checkpoint at {where}",
            hint="give what Checkpoint.save has returned, without .index, or its folder",
        )
    return found


def _object(node: Any) -> SavedObject:
    return SavedObject(
        {child.local_name: child.node_id for child in node.children},
        node.attributes[0].checkpoint_key if node.attributes else "",
    )
