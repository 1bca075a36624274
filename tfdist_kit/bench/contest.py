"""Several ways to do the same, measured in turn: A B C A B C ..., medians, and ratios by round.

A machine's own pace, and whatever else it is doing, cancels out of the ratios.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Contest:
    """One row of a table.

    Attributes:
        name: What is done.
        ways: How it is done; each action gives its own seconds, or None to be timed as a whole.
        base: The way that the others are held against.
    """

    name: str
    ways: Mapping[str, Callable[[], float | None]]
    base: str

    def measure(self, rounds: int) -> Result:
        """Do everything once without counting, then `rounds` times."""
        for action in self.ways.values():
            action()
        times: dict[str, list[float]] = {way: [] for way in self.ways}
        for _ in range(rounds):
            for way, action in self.ways.items():
                times[way].append(_seconds(action))
        return Result(self, times)


def _seconds(action: Callable[[], float | None]) -> float:
    begin = time.perf_counter()
    own = action()
    return time.perf_counter() - begin if own is None else own


@dataclass(frozen=True)
class Result:
    """The times of a contest, by way, a round each."""

    contest: Contest
    times: Mapping[str, list[float]]

    def rows(self) -> list[str]:
        """The rows of a Markdown table: what, how, median seconds, ratio to the base."""
        return [
            f"| {self.contest.name} | {way} | {statistics.median(times):.3f} s "
            f"| {self._ratio(times):.2f} |"
            for way, times in self.times.items()
        ]

    def _ratio(self, times: list[float]) -> float:
        base = self.times[self.contest.base]
        return statistics.median(a / b for a, b in zip(times, base, strict=True))


TFDIST_RUN = (sys.executable, "-m", "tfdist_kit.cli", "run")
TOTAL = """\
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
@tf.function
def total():
    one = lambda: tf.distribute.get_replica_context().all_reduce("sum", tf.identity(1.0))
    return strategy.run(one)
"""
"""The start of a script of which each call of ``total`` is one all-reduce."""
HEAD = "| What | How | Median | Ratio |\n|---|---|---|---|"


def run(*command: str | Path) -> None:
    """Run a command that must succeed."""
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if done.returncode:
        end = done.stderr[-2000:].decode(errors="replace")
        raise RuntimeError(f"{' '.join(map(str, command))} left with {done.returncode}\n{end}")
