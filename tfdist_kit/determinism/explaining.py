"""Why two runs may not be compared bit by bit: what of their manifests differs, and what it does.

two manifests -> flat keys -> those that differ -> what each may change
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tfdist_kit.determinism.trace import Run

_NOT_COMPARED = ("task", "drawn")
_EXPLAINED = {
    "threads.intra_op": "convolutions and large reductions split their work by it, and so add up "
    "in another order; set tf.config.threading.set_intra_op_parallelism_threads",
    "threads.inter_op": "never seen to change bits, but kernels may run in another order",
    "hardware.cores": "it is the number of threads unless that is set, and the order of sums "
    "depends on it; set the number of threads",
    "hardware": "kernels are chosen by it, and other kernels round in another way",
    "environment.TF_ENABLE_ONEDNN_OPTS": "oneDNN's convolutions, products and attention round in "
    "another way; set it to the same value on both sides, before TensorFlow is imported",
    "switches.one_dnn": "oneDNN's convolutions, products and attention round in another way",
    "environment.OMP_NUM_THREADS": "it sets the threads of oneDNN's kernels, and so the order of "
    "their sums",
    "environment.XLA_FLAGS": "XLA fuses and orders operations by it",
    "environment": "a library that TensorFlow uses reads it",
    "switches.op_determinism": "it chooses other kernels: runs with and without it never compare",
    "switches.precision": "other types of numbers round in another way; compare with a tolerance",
    "switches.xla_jit": "XLA fuses operations, which then round in another way",
    "switches.tf32": "products on a GPU keep fewer bits",
    "seeds": "initial weights, shuffling and dropout are drawn from it; give both the same seed",
    "versions": "kernels change between versions",
    "cluster": "sums over another number of replicas round in another way, and shards differ",
    "program.script": "the programs differ",
    "program.arguments": "the programs were given other arguments",
}


@dataclass(frozen=True)
class Difference:
    """One key of the manifests that differs.

    Attributes:
        key: Such as ``threads.intra_op``.
        first: Its value in the one.
        second: Its value in the other; None where it is absent.
        ranks: The ranks on which it does.
        meaning: What it may change.
    """

    key: str
    first: Any
    second: Any
    ranks: tuple[int, ...]
    meaning: str

    def __str__(self) -> str:
        on = f" on rank {', '.join(map(str, self.ranks))}" if self.ranks else ""
        return f"{self.key}{on}: {_shown(self.first)} and {_shown(self.second)}: {self.meaning}"


def explain(first: Run, second: Run) -> list[Difference]:
    """What of the manifests of two runs differs, each rank held against the same rank."""
    found: dict[tuple[str, str, str], Difference] = {}
    for rank in sorted(first.traces.keys() & second.traces.keys()):
        pairs = between(first.traces[rank].manifest, second.traces[rank].manifest)
        for key, one, other in pairs:
            known = found.get((key, repr(one), repr(other)))
            ranks = (*(known.ranks if known else ()), rank)
            found[key, repr(one), repr(other)] = Difference(key, one, other, ranks, meaning(key))
    if first.traces.keys() != second.traces.keys():
        numbers = len(first.traces), len(second.traces)
        found["cluster", "", ""] = Difference("cluster.processes", *numbers, (), meaning("cluster"))
    return list(found.values())


def explain_workers(run: Run) -> list[Difference]:
    """What of the manifests of one run's own workers differs from that of its first."""
    base, *others = run.traces.values()
    return [
        Difference(key, one, other, (trace.rank,), meaning(key))
        for trace in others
        for key, one, other in between(base.manifest, trace.manifest)
    ]


def between(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """The keys of two manifests whose values differ; not those that differ by design."""
    one, other = dict(flat(first)), dict(flat(second))
    for key in sorted(one.keys() | other.keys()):
        if key.partition(".")[0] not in _NOT_COMPARED and one.get(key) != other.get(key):
            yield key, one.get(key), other.get(key)


def meaning(key: str) -> str:
    """What a key of the manifest may change."""
    while key:
        if key in _EXPLAINED:
            return _EXPLAINED[key]
        key = key.rpartition(".")[0]
    return "it may change bits"


def flat(value: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Each fact of a manifest under a dotted key, such as ``threads.intra_op``."""
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            yield from flat(inner, f"{before}{key}.")
        else:
            yield f"{before}{key}", inner


def _shown(value: Any) -> str:
    return "not set" if value is None else str(value)
