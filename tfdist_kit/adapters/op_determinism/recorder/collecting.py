"""The digests of one step, in the order in which they are made, packed into one vector of int64.

add(phase, names, tensors) ... -> layout: what stands where
                               -> packed(): [digests, digests of rows, samples as bits]
unpacked(layout, numbers)      -> a phase each, as the trace writes it
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfdist_kit.adapters.op_determinism.recorder import digests
from tfdist_kit.determinism.trace import Row


@dataclass(frozen=True)
class Part:
    """The tensors of one phase, by name."""

    phase: str
    names: tuple[str, ...]
    has_sets: bool


@dataclass
class Collector:
    """What one trace of a step has made so far.

    Attributes:
        method: The kind of its digests.
        graph: The graph that they are made in; digests of other graphs cannot be kept.
        parts: What was added.
    """

    method: digests.Method = field(default_factory=digests.method)
    graph: Any = None
    parts: list[Part] = field(default_factory=list)
    _digests: list[Any] = field(default_factory=list)
    _sets: list[Any] = field(default_factory=list)
    _samples: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.graph = _graph()

    def add(self, phase: str, named: Iterable[tuple[str, Any]], *, rows: bool = False) -> None:
        """Digest the tensors of a phase, once, and only in the graph that this began in."""
        kept = [(name, value) for name, value in named if value is not None]
        if not kept or self.has(phase) or _graph() is not self.graph:
            return
        self.parts.append(Part(phase, tuple(name for name, _ in kept), rows))
        for _, value in kept:
            tensors = digests.parts_of(value)
            self._samples.append(digests.samples(tensors))
            if rows:
                digest, total = digests.digests_of_rows(tensors, self.method)
                self._sets.append(total)
            else:
                digest = digests.digest_of(tensors, self.method)
            self._digests.append(digest)

    def has(self, phase: str) -> bool:
        """Whether the phase was added."""
        return any(part.phase == phase for part in self.parts)

    def packed(self) -> Any:
        """Everything as one vector."""
        import tensorflow as tf

        pairs = tf.reshape(tf.concat(self._samples, axis=0), [-1, 2])
        heads = digests.as_numbers(self._digests, self.method)
        sets = [tf.stack(self._sets)] if self._sets else []
        return tf.concat([heads, *sets, tf.bitcast(pairs, tf.int64)], axis=0)


def _graph() -> Any:
    import tensorflow as tf

    return None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()


def unpacked(parts: Sequence[Part], numbers: Any, method: str) -> Iterator[Row]:
    """The phases of a step, from its vector; loop, step and replica are for the caller to add."""
    total = sum(len(part.names) for part in parts)
    with_sets = sum(len(part.names) for part in parts if part.has_sets)
    words = numbers[: total + with_sets].astype(">i8").tobytes().hex()
    values = numbers[total + with_sets :].astype("<i8").view("<f4").reshape(total, -1).tolist()
    at, at_set = 0, total
    for part in parts:
        count = len(part.names)
        yield Row(
            phase=part.phase,
            names=part.names,
            digests=_cut(words, at, count),
            sets=_cut(words, at_set, count) if part.has_sets else (),
            samples=tuple(values[at : at + count]),
            method=method,
        )
        at += count
        at_set += count if part.has_sets else 0


def _cut(words: str, at: int, count: int) -> tuple[str, ...]:
    """Words of 16 digits each, from the one at `at`."""
    return tuple(words[16 * place : 16 * place + 16] for place in range(at, at + count))


def named_parts(structure: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The tensors of a batch, each with the way to it, such as ``batch[0]['image']``."""
    if isinstance(structure, Mapping):
        for key in sorted(structure, key=str):
            yield from named_parts(structure[key], f"{name}[{key!r}]")
    elif isinstance(structure, list | tuple):
        for index, item in enumerate(structure):
            yield from named_parts(item, f"{name}[{index}]")
    elif structure is not None:
        yield name, structure


def named_variables(variables: Iterable[Any]) -> list[tuple[str, Any]]:
    """Variables by name; those that share one are numbered."""
    seen: dict[str, int] = {}
    named = []
    for variable in variables:
        name = getattr(variable, "path", None) or getattr(variable, "name", "variable")
        name = str(name).removesuffix(":0")
        seen[name] = seen.get(name, 0) + 1
        named.append((f"{name} #{seen[name]}" if seen[name] > 1 else name, variable))
    return named
