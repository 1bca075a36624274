"""The verdicts of many plans as a table, and as JSON."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.chaos.judging import Verdict

HEAD = (
    "| plans | of | identical | steps lost | redone | restarts | hung | left over "
    "| notice to gone, less the save: median, most |\n|---|---|---|---|---|---|---|---|---|"
)
_QUICK = ("step", "periodic save", "last step", "finish", "evaluation", "exit")
"""Phases in which a process can leave at once; elsewhere TensorFlow starts, or a step is traced."""


def table(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """The table's lines: a row for each family, one for all of them."""
    yield HEAD
    families = list(dict.fromkeys(verdict.family for verdict in verdicts))
    for family in families:
        yield _row(family, [verdict for verdict in verdicts if verdict.family == family])
    if len(families) > 1:
        yield _row("all", verdicts)


def _row(name: str, verdicts: Sequence[Verdict]) -> str:
    good = sum(not verdict.troubles for verdict in verdicts)
    hung = sum("it hung" in verdict.troubles for verdict in verdicts)
    left = sum(any("left behind" in text for text in one.troubles) for one in verdicts)
    cells = (
        name,
        f"{good}/{len(verdicts)}",
        sum(verdict.identical for verdict in verdicts),
        sum(verdict.lost for verdict in verdicts),
        sum(verdict.redone for verdict in verdicts),
        sum(verdict.restarts for verdict in verdicts),
        hung,
        left,
        _times(verdicts),
    )
    return f"| {' | '.join(map(str, cells))} |"


def _times(verdicts: Sequence[Verdict]) -> str:
    seconds = [
        departure.seconds - departure.saving
        for verdict in verdicts
        for departure in verdict.departures
        if departure.phase in _QUICK
    ]
    return f"{statistics.median(seconds):.2f} s, {max(seconds):.2f} s" if seconds else "-"


def write(path: Path, seed: int, verdicts: Sequence[Verdict]) -> None:
    """Write everything that was found."""
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {
        "seed": seed,
        "plans": [dataclasses.asdict(verdict) for verdict in verdicts],
    }
    path.write_text(json.dumps(record, indent=1) + "\n")
