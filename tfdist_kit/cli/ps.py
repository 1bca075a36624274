"""``tfdist ps``: where runs stand, from outside.

run folders -> launcher.watch -> a table, or JSON
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tfdist_kit.launcher import quantities
from tfdist_kit.launcher.output import watch

_HEAD = ("RANK", "TASK", "PID", "STATE", "STEP", "LAST OUTPUT", "RSS")


def add_parser(subparsers: Any) -> None:
    """Add ``ps`` to the command line."""
    parser = subparsers.add_parser(
        "ps",
        help="show where runs stand",
        description="Show each rank of the runs that go on, or of those in the given folders.",
        allow_abbrev=False,
    )
    parser.add_argument("folders", metavar="RUN_DIR", nargs="*", type=Path, help="a run folder")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=execute)


def execute(args: argparse.Namespace) -> int:
    """Carry ``tfdist ps`` out and return its exit code."""
    runs = [watch.look(folder) for folder in args.folders or watch.live_runs()]
    if args.json:
        print(json.dumps([asdict(run) for run in runs], indent=1))
    elif runs:
        print("\n\n".join("\n".join(_lines(run)) for run in runs))
    else:
        print("tfdist: no run goes on", file=sys.stderr)
    return 0


def _lines(run: watch.Run) -> Iterator[str]:
    attempt = f", attempt {run.attempt}" if run.attempt else ""
    yield f"{run.target} ({'live' if run.live else 'over'}{attempt})  {run.run_dir}"
    yield from _table([_HEAD, *map(_row, run.workers)])


def _row(worker: watch.Worker) -> tuple[str, ...]:
    age = None if worker.last_output is None else quantities.age(worker.last_output)
    rss = None if worker.rss is None else quantities.memory(worker.rss)
    cells = (worker.rank, worker.task, worker.pid, worker.state, worker.step, age, rss)
    return tuple("-" if cell is None else str(cell) for cell in cells)


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()
