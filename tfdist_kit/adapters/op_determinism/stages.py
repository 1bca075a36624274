"""A dataset as its stages, from the source to the end, each with the functions that it calls.

    a dataset -> its inputs first -> a Stage: its name, the user's line, whether it runs in parallel
    or ahead, its functions' graphs

Nothing of the dataset is run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tfdist_kit import _frames
from tfdist_kit._errors import UsageError
from tfdist_kit.adapters._private import private

_DATASET = ("tensorflow.python.data.ops.dataset_ops", "DatasetV2")


@dataclass(frozen=True)
class Stage:
    """One stage of a dataset.

    Attributes:
        dataset: The dataset up to it.
        kind: Its name, as the method of `tf.data.Dataset` that makes it.
        place: Which function of the user's it calls, if any: ``(augment) at train.py:12``.
        is_parallel: Whether it runs several elements at a time.
        graphs: The functions that it calls, as GraphDefs.
    """

    dataset: Any
    kind: str
    place: str
    is_parallel: bool
    graphs: tuple[Any, ...]

    @property
    def name(self) -> str:
        """What a user calls it."""
        return f"{self.kind}{self.place}"

    @property
    def is_ahead(self) -> bool:
        """Whether it runs while the program does something else."""
        return self.is_parallel or self.kind == "prefetch"

    @property
    def is_sloppy(self) -> bool:
        """Whether it was told itself that the order does not matter."""
        return getattr(self.dataset, "_deterministic", None) == "false"


def stages_of(dataset: Any) -> list[Stage]:
    """The stages of a dataset, inputs first.

    Raises:
        UsageError: It is no `tf.data.Dataset`.
        UnsupportedVersionError: TensorFlow's internals are not as expected.
    """
    owner = private(*_DATASET)
    if not isinstance(dataset, owner):
        raise UsageError(
            f"dataset is {type(dataset).__name__}",
            hint="give a tf.data.Dataset, before a strategy distributes it",
        )
    for name in ("_inputs", "_functions"):
        private(*_DATASET, name)
    return [stage_of(each) for each in _walk(dataset, set())]


def _walk(dataset: Any, seen: set[int]) -> Iterator[Any]:
    dataset = getattr(dataset, "_dataset", dataset)  # what a compat.v1 dataset wraps
    if id(dataset) in seen:
        return
    seen.add(id(dataset))
    for each in dataset._inputs():
        yield from _walk(each, seen)
    yield dataset


def stage_of(dataset: Any) -> Stage:
    """The last stage of a dataset."""
    words = re.sub(r"Dataset(V\d+)?$", "", type(dataset).__name__.lstrip("_"))
    kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", words.removeprefix("Parallel")).lower()
    functions = dataset._functions()
    graphs = tuple(each.function.graph.as_graph_def() for each in functions)
    if any(node.op == "GeneratorDataset" for graph in graphs for node in graph.node):
        return Stage(dataset, "from_generator", "", is_parallel=False, graphs=graphs)
    place = _place(functions[0]) if functions else ""
    return Stage(dataset, kind, place, words.startswith("Parallel"), graphs)


def _place(function: Any) -> str:
    user = getattr(function, "_func", None)
    user = getattr(user, "python_function", user)  # of a tf.function
    name = getattr(user, "__name__", type(user).__name__).replace("<lambda>", "lambda")
    code = getattr(user, "__code__", None)
    if code is None or not _frames.is_users_file(code.co_filename):
        return f"({name})"
    return f"({name}) at {_frames.place(code.co_filename, code.co_firstlineno)}"
