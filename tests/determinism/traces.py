"""Traces that no TensorFlow has made: what a recorder would have written, and where it differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tfdist_kit.determinism import Run, read_run
from tfdist_kit.determinism.trace import Row
from tfdist_kit.determinism.writing import TraceWriter

PLAIN: Mapping[str, Any] = {
    "versions": {"tensorflow": "2.21.0"},
    "threads": {"intra_op": 2, "inter_op": 2},
    "seeds": {"tensorflow": 1},
    "environment": {},
    "task": {"type": "worker", "index": 0},
    "drawn": {"python": "aa", "numpy": "bb"},
}
NAMES = ("dense/kernel", "dense/bias")
Place = tuple[str, int]


def rows(
    steps: int = 4,
    changed: Mapping[Place, Mapping[int, str]] | None = None,
    sets: Sequence[int] | None = None,
    samples: Mapping[Place, float] | None = None,
    method: str = "farmhash64",
    names: tuple[str, str] = NAMES,
) -> list[Row]:
    """A run of some steps; at each place a digest of its own, but where it is changed."""
    found = [_row("init", -1, names, changed or {}, samples or {}, method)]
    for step in range(steps):
        for phase in ("input", "loss", "grad", "reduced", "weight"):
            row = _row(phase, step, names, changed or {}, samples or {}, method)
            if phase == "input":
                value = sets[step] if sets else 100 + step
                row = Row(**{**vars(row), "sets": (f"{value:016x}",) * 2})
            found.append(row)
    return found


def _row(
    phase: str,
    step: int,
    names: tuple[str, str],
    changed: Mapping[Place, Mapping[int, str]],
    samples: Mapping[Place, float],
    method: str,
) -> Row:
    own = [f"{phase[0]}{step}{place}".ljust(16, "0") for place in range(2)]
    for place, digest in changed.get((phase, step), {}).items():
        own[place] = digest
    value = samples.get((phase, step), 1.0)
    return Row(
        phase=phase,
        names=names,
        digests=tuple(own),
        samples=((value, 2.0, 0.5, 1.0), (1.0, 1.0, 1.0, 1.0)),
        step=step,
        method=method,
    )


def written(
    folder: Path,
    *ranks: Sequence[Row],
    manifests: Sequence[Mapping[str, Any]] = (),
) -> Run:
    """Write a trace for each rank, and read them."""
    for rank, each in enumerate(ranks):
        manifest = manifests[rank] if manifests else {**PLAIN, "task": {"index": rank}}
        writer = TraceWriter(folder, rank, manifest)
        for row in each:
            writer.write(row)
        writer.close()
    return read_run(folder)
