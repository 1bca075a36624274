"""How a run goes on, on stderr: a bar on a terminal, otherwise a line for each step."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any, TextIO


class Lines:
    """A line for each step.

    Args:
        stream: Where to.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._done = self._total = 0

    def begin(self, what: str, total: int) -> None:
        """A part of the run begins."""
        self._done, self._total = 0, total
        print(f"{what}: {total}", file=self._stream, flush=True)

    def step(self, outcome: str, name: str) -> None:
        """A step has been taken."""
        self._done += 1
        place = f"[{self._done}/{self._total}]"
        print(f"{place} {outcome}: {name}", file=self._stream, flush=True)

    def close(self) -> None:
        """There is nothing to put away."""


class Bar:
    """A bar that tells what came of the steps so far."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        text = TextColumn("{task.description}", markup=False)
        told = TextColumn("{task.fields[told]}", markup=False)
        self._progress: Any = Progress(
            text, BarColumn(), MofNCompleteColumn(), told, console=Console(stderr=True)
        )
        self._task: Any = None
        self._found: Counter[str] = Counter()

    def begin(self, what: str, total: int) -> None:
        """A part of the run begins."""
        self._progress.start()
        self._found.clear()
        self._task = self._progress.add_task(what, total=total, told="")

    def step(self, outcome: str, name: str) -> None:
        """A step has been taken."""
        self._found[outcome] += 1
        told = ", ".join(f"{count} {name}" for name, count in self._found.items())
        self._progress.update(self._task, advance=1, told=told)

    def close(self) -> None:
        """Give the terminal back."""
        self._progress.stop()


def progress() -> Lines | Bar:
    """What suits this process' stderr."""
    return Bar() if sys.stderr.isatty() else Lines(sys.stderr)
