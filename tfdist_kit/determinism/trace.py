"""A trace: what one process of a run has computed, as JSON Lines.

    {"trace": 1, "rank": 1, "manifest": {...}}                          the first line
    {"names": 0, "of": ["dense/kernel", ...], "method": "farmhash64"}   before they are used
    {"loop": 0, "step": 3, "phase": "grad", "names": 0, "digests": [...], ...}
    {"end": true}                                                       it was closed

Digests are 64 bits of all bytes of a tensor. The rows of an input have a second digest, ``sets``,
that does not depend on their order. ``samples`` are a few elements of each tensor at fixed places
(float32, little-endian, as hexadecimal digits), by which runs that are not expected to have the
same bits are held against each other.
A run is a folder with a trace for each rank, ``rank_0.jsonl`` and so on.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tfdist_kit._errors import UsageError

VERSION = 1
PHASES = ("init", "input", "loss", "grad", "reduced", "weight")
"""In the order of a step; ``init`` stands before the first one, with step -1."""
_FILE = re.compile(r"rank_(\d+)\.jsonl")


@dataclass(frozen=True)
class Row:
    """The tensors of one phase of one step.

    Attributes:
        phase: One of `PHASES`.
        names: The tensors.
        digests: One for each, as 16 hexadecimal digits.
        sets: Of inputs: one for each that does not depend on the order of its rows.
        samples: A few elements of each.
        loop: Which training loop of the process, counted from 0.
        step: Which step of the loop, counted from 0; -1 before the first.
        replica: Which replica of the process.
        method: The kind of the digests.
    """

    phase: str
    names: tuple[str, ...]
    digests: tuple[str, ...]
    sets: tuple[str, ...] = ()
    samples: tuple[Sequence[float], ...] = ()
    loop: int = 0
    step: int = -1
    replica: int = 0
    method: str = ""

    @property
    def place(self) -> tuple[int, int, int]:
        """Where in the run it stands, to be sorted by."""
        return self.loop, self.step, PHASES.index(self.phase)

    def at(self, phase: str) -> Row:
        """The same tensors in another phase."""
        return replace(self, phase=phase)


@dataclass(frozen=True)
class Trace:
    """What one process has computed.

    Attributes:
        rank: Its rank.
        manifest: What may legitimately change its bits.
        rows: In the order of the run.
        is_whole: Whether the process closed it.
    """

    rank: int
    manifest: Mapping[str, Any]
    rows: tuple[Row, ...]
    is_whole: bool

    def by_place(self) -> dict[tuple[int, int, int, int], Row]:
        """Its rows by loop, step, phase and replica; of several, the last."""
        return {(*row.place, row.replica): row for row in self.rows}


@dataclass(frozen=True)
class Run:
    """One run: the traces of its processes, by rank."""

    name: str
    traces: Mapping[int, Trace] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """How many steps rank 0, or the first that there is, has recorded."""
        first = next(iter(self.traces.values()))
        return len({(row.loop, row.step) for row in first.rows if row.step >= 0})


def read_run(path: Path, name: str = "") -> Run:
    """Read a folder of traces, or a single one.

    Raises:
        UsageError: There is none, or one of them cannot be understood.
    """
    files = [path] if path.is_file() else sorted(path.glob("rank_*.jsonl"), key=_rank_of)
    if not files:
        raise UsageError(
            f"there is no trace in {path}",
            hint="record a run: tfdist determinism verify, or recording(folder) around it",
        )
    traces = [_read(file) for file in files]
    return Run(name or path.name, {trace.rank: trace for trace in traces})


def _rank_of(path: Path) -> int:
    found = _FILE.fullmatch(path.name)
    return int(found[1]) if found else 0


def _read(path: Path) -> Trace:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        return _understood(_values(lines))
    except (ValueError, KeyError, TypeError, OSError, struct.error) as error:
        raise UsageError(
            f"{path} is not a trace: {type(error).__name__}: {error}",
            hint="give the folder of a recorded run, or one of the rank_N.jsonl files in it",
        ) from error


def _values(lines: list[str]) -> Iterator[Any]:
    for number, line in enumerate(lines):
        try:
            yield json.loads(line)
        except ValueError:
            if number == 0 or number + 1 < len(lines):
                raise
            return  # the process was killed while it wrote its last line


def _understood(values: Iterator[Any]) -> Trace:
    head: Any = next(values, {})
    if not isinstance(head, dict) or head.get("trace") != VERSION:
        raise ValueError(f"its first line has no 'trace': {VERSION}")
    names: dict[int, tuple[tuple[str, ...], str]] = {}
    rows, ended = [], False
    for value in values:
        ended = ended or "end" in value
        if "of" in value:
            names[value["names"]] = (tuple(value["of"]), value["method"])
        elif "phase" in value:
            rows.append(_row(value, *names[value["names"]]))
    return Trace(head["rank"], head["manifest"], tuple(rows), ended)


def _row(value: Mapping[str, Any], names: tuple[str, ...], method: str) -> Row:
    return Row(
        phase=value["phase"],
        names=names,
        digests=tuple(value["digests"]),
        sets=tuple(value.get("sets", ())),
        samples=_samples(value["samples"], len(names)),
        loop=value["loop"],
        step=value["step"],
        replica=value.get("replica", 0),
        method=method,
    )


def _samples(text: str, tensors: int) -> tuple[tuple[float, ...], ...]:
    """The samples of each tensor, from the digits of all of them."""
    data = bytes.fromhex(text)
    flat = struct.unpack(f"<{len(data) // 4}f", data)
    each = len(flat) // max(tensors, 1)
    return tuple(flat[at : at + each] for at in range(0, len(flat), each or 1))
