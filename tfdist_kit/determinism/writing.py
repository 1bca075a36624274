"""Writes a trace, a line at a time; see `trace` for what a line holds."""

from __future__ import annotations

import itertools
import json
import os
import struct
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tfdist_kit.determinism.trace import VERSION, Row


class TraceWriter:
    """One process' trace.

    Args:
        folder: The folder of the run; it is made if need be.
        rank: This process' rank.
        manifest: What may legitimately change its bits.
    """

    def __init__(self, folder: Path, rank: int, manifest: Mapping[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = open(folder / f"rank_{rank}.jsonl", "w", encoding="utf-8")  # noqa: SIM115
        self._names: dict[tuple[tuple[str, ...], str], int] = {}
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._put({"trace": VERSION, "rank": rank, "manifest": manifest})
        self._file.flush()

    def write(self, row: Row) -> None:
        """Add one phase of one step."""
        with self._lock:
            line = {
                "loop": row.loop,
                "step": row.step,
                "phase": row.phase,
                "names": self._number(row),
                "digests": row.digests,
                "samples": _digits(row.samples),
            }
            if row.sets:
                line["sets"] = row.sets
            if row.replica:
                line["replica"] = row.replica
            self._put(line)

    def flush(self) -> None:
        """Have everything in the file."""
        with self._lock:
            self._file.flush()

    def close(self) -> None:
        """End the trace; harmless when called twice, and in a fork of the process."""
        with self._lock:
            if not self._file.closed and self._pid == os.getpid():
                self._put({"end": True})
                self._file.close()

    def _number(self, row: Row) -> int:
        key = (row.names, row.method)
        if key not in self._names:
            self._names[key] = len(self._names)
            self._put({"names": self._names[key], "of": row.names, "method": row.method})
        return self._names[key]

    def _put(self, value: Any) -> None:
        self._file.write(json.dumps(value, separators=(",", ":")) + "\n")


def _digits(samples: Iterable[Sequence[float]]) -> str:
    flat = list(itertools.chain.from_iterable(samples))
    return struct.pack(f"<{len(flat)}f", *flat).hex()
