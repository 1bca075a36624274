"""Which ops of a function have a state, as TensorFlow's own pass over a dataset judges them.

Under determinism that pass asks of each stage's function: may it run several times at once? May it
run while the program does something else? The lists below are its own. A parallel map whose random
ops stand at the top of its function is split: they are drawn one by one, and the rest stays
parallel, except what they are computed from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from tfdist_kit.adapters._private import private

_REGISTRY = "tensorflow.python.framework.op_def_registry"
_LOOKED_THROUGH = {"StatefulPartitionedCall", "If", "While"}
_HARMLESS = {
    *("TextLineDataset", "FixedLengthRecordDataset", "TFRecordDataset", "TensorSliceDataset"),
    *("RangeDataset", "SSTableDataset", "RecordIODataset", "Print", "Assert"),
}
_RANDOM = {
    *("RandomUniform", "RandomUniformInt", "RandomStandardNormal", "ParameterizedTruncatedNormal"),
    *("TruncatedNormal", "RandomShuffle", "Multinomial", "RandomGamma", "RandomGammaGrad"),
    *("RandomPoisson", "RandomCrop", "SampleDistortedBoundingBox"),
}
_LIGHT = {
    *("Const", "Placeholder", "Identity", "Shape", "ShapeN", "StridedSlice", "Slice", "Pack"),
    *("Unpack", "ConcatV2", "Size", "Rank", "Cast", "Reshape", "Squeeze", "ExpandDims", "Prod"),
    *("Add", "AddV2", "Sub", "Mul", "RealDiv", "FloorDiv", "FloorMod", "Neg", "Abs", "Maximum"),
    *("Minimum", "Equal", "NotEqual", "Greater", "GreaterEqual", "Less", "LessEqual", "SelectV2"),
    *("LogicalAnd", "LogicalOr", "LogicalNot", "GatherV2", "Range", "Fill"),
    *_RANDOM,
}


def ops_with_state(graphs: Iterable[Any]) -> list[str]:
    """The ops for which the whole dataset must run one element at a time.

    Args:
        graphs: A stage's functions, as GraphDefs.
    """
    found = (node.op for graph in graphs for node, _ in _nodes(graph))
    return sorted({op for op in found if _has_state(op) and not is_random(op)})


def random_ops(graph: Any) -> list[str]:
    """The random ops of a function, wherever they stand."""
    return sorted({node.op for node, _ in _nodes(graph) if is_random(node.op)})


def hidden_random_ops(graph: Any) -> list[str]:
    """The random ops of a function that stand in a function within it."""
    return sorted({node.op for node, inside in _nodes(graph) if inside and is_random(node.op)})


def dependent_random_ops(graph: Any) -> list[str]:
    """The random ops of a function that need something which takes work to compute."""
    nodes = {node.name: node for node in graph.node}
    return sorted(
        {
            node.op
            for node in graph.node
            if is_random(node.op) and any(_is_work(op) for op in _ancestors(node, nodes))
        }
    )


def unseeded_ops(graph: Any) -> list[str]:
    """The random ops of a function that were made without any seed."""
    return sorted({node.op for node, _ in _nodes(graph) if is_unseeded(node)})


def is_unseeded(node: Any) -> bool:
    """Whether a node draws random numbers from a seed that TensorFlow chooses in each run."""
    seeds = [node.attr[name].i for name in ("seed", "seed2") if name in node.attr]
    return is_random(node.op) and not any(seeds)


def is_random(op: str) -> bool:
    """Whether an op draws random numbers from a state of its own."""
    return _is_any(op, _RANDOM)


def _is_work(op: str) -> bool:
    return op not in _LIGHT and not is_random(op)


def _ancestors(node: Any, nodes: dict[str, Any]) -> set[str]:
    """The ops of all that a node's inputs are computed from."""
    ops, seen, left = set(), set(), [node]
    while left:
        for source in left.pop().input:
            name = source.partition(":")[0]
            if name.startswith("^") or name in seen or name not in nodes:
                continue
            seen.add(name)
            ops.add(nodes[name].op)
            left.append(nodes[name])
    return ops


def _nodes(graph: Any) -> Iterator[tuple[Any, bool]]:
    """Each node, and whether it stands in a function within the function."""
    for node in graph.node:
        yield node, False
    for function in graph.library.function:
        for node in function.node_def:
            yield node, True


def _has_state(op: str) -> bool:
    if op in _LOOKED_THROUGH or _is_any(op, _HARMLESS):
        return False
    known = private(_REGISTRY, "get")(op)
    return known is not None and bool(known.is_stateful)


def _is_any(op: str, names: set[str]) -> bool:
    """Whether an op is one of `names`, in any version."""
    return re.sub(r"V\d+$", "", op) in names
