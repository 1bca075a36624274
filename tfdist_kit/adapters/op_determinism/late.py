"""What came before the switch, and will not be deterministic although it is on.

    TensorFlow's functions -> unseeded random ops and losses that were traced the other way
    the datasets that live -> those that were read, or made without a seed, before
    the initializers and dropout layers of Keras 3 that live -> those for which it drew a seed

Nothing need be watched for the functions: TensorFlow's runtime holds all that can still be called.
Which datasets were read is known from the import of `tfdist_kit` on (`_read_datasets`). What was
drawn otherwise without a seed, such as a variable's first value, leaves no trace.
"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Iterator
from typing import Any

from tfdist_kit import _read_datasets
from tfdist_kit.adapters import _coordination
from tfdist_kit.adapters._private import private
from tfdist_kit.adapters.op_determinism import functions, silent
from tfdist_kit.adapters.op_determinism.lint import (
    depends_on_the_switch,
    read_before,
    unseeded,
)
from tfdist_kit.adapters.op_determinism.stages import stage_of

_CONTEXT = "tensorflow.python.eager.context"
_DATASET = ("tensorflow.python.data.ops.dataset_ops", "DatasetV2")
_KERAS_SEEDS = (
    ("keras.src.initializers.random_initializers", "RandomInitializer", "_init_seed"),
    ("keras.src.random.seed_generator", "SeedGenerator", "_initial_seed"),
)
"""The classes that draw a seed if they are given none, and where they keep what they were given."""
_LOSSES = {"SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits"}
_TRACED = re.compile(r"^__(?:inference|forward|backward)_(?:Dataset_)?(.+?)_\d+$")


def late_things() -> list[str]:
    """What came too early to be deterministic, each in words.

    TensorFlow is not initialised by the question.

    Raises:
        UnsupportedVersionError: TensorFlow's internals are not as expected.
    """
    if not _found():
        return []
    gc.collect()  # what only waits for that will not be used any more
    return _found()


def _found() -> list[str]:
    if not _coordination.is_initialised():
        return list(_keras())
    return [*_traced(), *_datasets(), *_keras()]


def _traced() -> Iterator[str]:
    context = private(_CONTEXT, "context")()
    for name in sorted(context.list_function_names()):
        if name.startswith("__wrapped__"):  # an op that ran eagerly
            continue
        nodes = context.get_function_def(name).node_def
        late = (node.op for node in nodes if node.op in _LOSSES or functions.is_unseeded(node))
        if ops := sorted(set(late)):
            told = _TRACED.match(name)
            yield f"the function {told[1] if told else name} was traced with {', '.join(ops)}"


def unknown_things() -> list[str]:
    """The datasets of which it cannot be known whether they were read, where that would matter."""
    if _read_datasets.knows_all() or not _coordination.is_initialised():
        return []
    return [
        f"the dataset {stage_of(each).name}"
        for each in _live_datasets()
        if depends_on_the_switch(each) and not _read_datasets.first_line(each)
    ]


def _datasets() -> Iterator[str]:
    for each in _live_datasets():
        for finding in (*unseeded(stage_of(each)), *read_before(each)):
            yield f"the dataset {finding.stage} {finding.cause}"


def _live_datasets() -> list[Any]:
    kinds = set(_kinds(private(*_DATASET)))
    live = [each for each in gc.get_objects() if type(each) in kinds]
    # Neither one of a graph, nor one whose making failed.
    return [each for each in live if hasattr(getattr(each, "_variant_tensor", None), "numpy")]


def _keras() -> Iterator[str]:
    """What has a seed that Keras 3 drew, before anybody had seeded it, from Python's `random`."""
    if not silent.keras_is_unseeded():
        return
    asked = {}
    for module, name, seed in _KERAS_SEEDS:
        if owner := getattr(sys.modules.get(module), name, None):
            asked.update(dict.fromkeys(_kinds(owner), seed))
    own = [each for each in gc.get_objects() if type(each) in asked]
    drawn = [each for each in own if getattr(each, asked[type(each)], 0) is None]
    if drawn:
        names = ", ".join(sorted({type(each).__name__ for each in drawn}))
        yield f"Keras drew {len(drawn)} seeds itself, for {names}"


def _kinds(owner: Any) -> Iterator[Any]:
    yield owner
    for kind in owner.__subclasses__():
        yield from _kinds(kind)
