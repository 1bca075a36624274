"""A traced step read: every call of the embedding in it, and where it stands.

graph -> its operations, and those of the loops, branches and functions in it, in order -> Calls
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from tfdist_kit.adapters.tpu_embedding.tracing.places import place_of

Kind = Literal["enqueue", "dequeue", "apply_gradients"]
Mode = Literal["train", "inference", "unknown"]

KINDS: dict[str, Kind] = {
    "EnqueueTPUEmbeddingArbitraryTensorBatch": "enqueue",
    "RecvTPUEmbeddingActivations": "dequeue",
    "SendTPUEmbeddingGradients": "apply_gradients",
}
_LOOPS = {"While": ("cond", "body"), "StatelessWhile": ("cond", "body")}
_BRANCHES = {
    "If": ("then_branch", "else_branch"),
    "StatelessIf": ("then_branch", "else_branch"),
    "Case": ("branches",),
    "StatelessCase": ("branches",),
}
_FUNCTIONS = {"PartitionedCall": ("f",), "StatefulPartitionedCall": ("f",)}
_LOOKED_AT = {*KINDS, *_LOOPS, *_BRANCHES, *_FUNCTIONS}
_LAYER = "_tpu_embedding_layer"
_IN_RUN = "_tpu_replicate"


@dataclass(frozen=True)
class Call:
    """A call of the embedding, as the graph has it; ``enqueue`` has one for each core.

    Attributes:
        kind: The method.
        where: File and line of the program; empty if TensorFlow does not know.
        loops: The loops around it, outermost first.
        branches: The branches of conditions around it, outermost first.
        in_run: Whether it is inside ``strategy.run``.
        in_function: Whether what ``strategy.run`` runs there is a ``tf.function``.
        layer: The ``name=`` of the call.
        mode: Of ``enqueue``: what ``training=`` says.
        core: Of ``enqueue``: host device and number of the core; None inside ``strategy.run``,
            where it is done for every core.
        zeros: Of ``apply_gradients``: for each feature, whether its gradient is nothing but zeros.
    """

    kind: Kind
    where: str
    loops: tuple[str, ...]
    branches: tuple[str, ...]
    in_run: bool
    in_function: bool
    layer: str
    mode: Mode = "unknown"
    core: tuple[str, int] | None = None
    zeros: tuple[bool, ...] = ()


@dataclass(frozen=True)
class _Place:
    loops: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()
    in_run: bool = False
    in_function: bool = False


def calls_in(graph: Any) -> list[Call]:
    """All calls of the embedding in a function's graph, in the order of the program."""
    return list(_walk(graph, _Place(), ""))


def _walk(graph: Any, place: _Place, path: str) -> Iterator[Call]:
    for op in graph.get_operations():
        if op.type not in _LOOKED_AT:
            continue
        here = replace(place, in_run=place.in_run or _attribute(op, _IN_RUN) is not None)
        if op.type in KINDS:
            yield _call(op, here)
            continue
        for name, inner in _inner_places(op, here, f"{path}/{op.name}"):
            yield from _walk(graph._get_function(name).graph, inner, f"{path}/{op.name}")


def _inner_places(op: Any, place: _Place, path: str) -> Iterator[tuple[str, _Place]]:
    """The functions of an operation, and where their operations then are."""
    if op.type in _LOOPS:
        for name in _names(op, _LOOPS[op.type]):
            yield name, replace(place, loops=(*place.loops, path))
    elif op.type in _BRANCHES:
        for number, name in enumerate(_names(op, _BRANCHES[op.type])):
            yield name, replace(place, branches=(*place.branches, f"{path}:{number}"))
    elif op.type in _FUNCTIONS:
        for name in _names(op, _FUNCTIONS[op.type]):
            yield name, replace(place, in_function=place.in_run)


def _names(op: Any, attributes: tuple[str, ...]) -> Iterator[str]:
    for attribute in attributes:
        value = op.get_attr(attribute)
        for function in value if isinstance(value, list) else [value]:
            yield function.name


def _attribute(op: Any, name: str) -> Any:
    try:
        return op.get_attr(name)
    except ValueError:
        return None


def _call(op: Any, place: _Place) -> Call:
    kind = KINDS[op.type]
    layer = _attribute(op, _LAYER) or b""
    call = Call(
        kind=kind,
        where=place_of(op.traceback),
        loops=place.loops,
        branches=place.branches,
        in_run=place.in_run,
        in_function=place.in_function,
        layer=layer.decode(),
    )
    if kind == "enqueue":
        core = None if place.in_run else (op.device, op.get_attr("device_ordinal"))
        return replace(call, mode=_mode(op.inputs[-1]), core=core)
    if kind == "apply_gradients":
        gradients = op.inputs[: op.get_attr("N")]
        return replace(call, zeros=tuple(_is_zero(each) for each in gradients))
    return call


def _mode(override: Any) -> Mode:
    """The mode of an enqueue, where it is constant.

    Inside ``strategy.run`` TensorFlow selects one of two constants by the flag.
    """
    import tensorflow as tf

    if override.op.type == "SelectV2":
        training = tf.get_static_value(override.op.inputs[0])
        return "unknown" if training is None else ("train" if training else "inference")
    value = tf.get_static_value(override)
    known: dict[str, Mode] = {"train": "train", "inference": "inference"}
    return "unknown" if value is None else known.get(value.item().decode(), "unknown")


def _is_zero(gradient: Any) -> bool:
    """Whether a gradient is the zeros that TensorFlow puts in the place of None."""
    import tensorflow as tf

    source = gradient.op.inputs[0] if gradient.op.type == "Reshape" else gradient
    if source.op.type == "ZerosLike":
        return True
    if source.op.type == "Fill":
        source = source.op.inputs[1]
    value = tf.get_static_value(source) if source.op.type == "Const" else None
    return value is not None and not value.any()
