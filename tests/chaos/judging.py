"""Was it as if nothing had happened? And what did it cost?

Played, the uninterrupted run -> Verdict: weights, rows, steps made twice, seconds from a notice
to the end of the last process
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chaos.plans import LOSES_NOTHING, Plan
from tests.chaos.playing import Played

PREEMPTED = 42
IN_TRAINING = ("trace", "step", "periodic save", "preemption save", "last step", "leaving")
Rows = Mapping[str, Sequence[str]]
"""For each replica, a line for each step: its number, and the hashes of its examples."""


@dataclass(frozen=True)
class Reference:
    """The uninterrupted run: its weights and its rows."""

    weights: str
    rows: Rows


@dataclass(frozen=True)
class Departure:
    """From a notice to the end of the last process of that incarnation.

    Attributes:
        phase: When the first notice came.
        seconds: How long it took.
        saving: How many of them a save lasted.
    """

    phase: str
    seconds: float
    saving: float


@dataclass(frozen=True)
class Verdict:
    """What is found about one plan.

    Attributes:
        plan: The plan, in a line.
        name: Its name.
        family: Its family.
        steps: How many steps the training has.
        identical: Whether the weights of all workers are those of the uninterrupted run.
        lost: Steps whose examples are not those of the uninterrupted run, or are missing.
        redone: Steps that were made more than once.
        restarts: Starts after the first.
        struck: How many of the blows came.
        codes: The launchers' exit codes.
        seconds: How long the plan took.
        departures: One for each incarnation that had a notice.
        troubles: Why the plan has failed; empty if it has not.
    """

    plan: str
    name: str
    family: str
    steps: int
    identical: bool
    lost: int
    redone: int
    restarts: int
    struck: int
    codes: tuple[int, ...]
    seconds: float
    departures: tuple[Departure, ...]
    troubles: tuple[str, ...]


def reference(played: Played) -> Reference:
    """What the uninterrupted run of a plan gave.

    Raises:
        RuntimeError: It failed.
    """
    found = _weights(played)
    rows, redone = _rows(played.folder / "rows")
    if played.codes != (0,) or len(set(found)) != 1 or redone or played.left:
        end = played.output()[-3000:]
        raise RuntimeError(f"the uninterrupted run failed: {played}\n{end}")
    return Reference(found[0], rows)


def judge(played: Played, wanted: Reference) -> Verdict:
    """Compare a plan with the uninterrupted run."""
    plan = played.plan
    notes = _notes(played.folder)
    found = _weights(played)
    rows, redone = _rows(played.folder / "rows")
    identical = len(found) >= plan.workers and set(found) == {wanted.weights}
    lost = _different(rows, wanted.rows)
    troubles = [
        *(["it hung"] if played.hung else []),
        *([f"the launcher left with {played.codes[-1]}"] if played.codes[-1] else []),
        *([] if identical else ["the weights differ"]),
        *([f"{lost} steps with other examples"] if lost else []),
        *_too_many_redone(plan, redone),
        *_wrong_codes(played.folder, notes),
        *(f"left behind: {what}" for what in played.left),
    ]
    return Verdict(
        plan=plan.told(),
        name=plan.name,
        family=plan.family,
        steps=plan.steps,
        identical=identical,
        lost=lost,
        redone=redone,
        restarts=played.starts - 1,
        struck=sum(note["what"] == "struck" for note in notes),
        codes=played.codes,
        seconds=round(played.seconds, 3),
        departures=tuple(_departures(played.folder, notes)),
        troubles=tuple(troubles),
    )


def _weights(played: Played) -> list[str]:
    return re.findall(r"\] weights +([0-9a-f]{64})", played.output())


def _rows(folder: Path) -> tuple[Rows, int]:
    """What was trained on in the end, and how many steps were made again.

    Each start of a worker has a file; what it goes on from cuts those before it short.
    """
    rows: dict[str, dict[int, str]] = {}
    redone: dict[str, int] = {}
    for path in sorted(folder.glob("replica_*.txt"), key=_started):
        replica = path.name.partition("-")[0]
        known = rows.setdefault(replica, {})
        lines = path.read_text().splitlines()
        for line in lines[:1]:
            first = int(line.partition(" ")[0])
            again = [step for step in known if step >= first]
            redone[replica] = redone.get(replica, 0) + len(again)
            for step in again:
                del known[step]
        known.update({int(line.partition(" ")[0]): line for line in lines})
    made = {replica: [lines[step] for step in sorted(lines)] for replica, lines in rows.items()}
    return made, max(redone.values(), default=0)


def _started(path: Path) -> int:
    return int(path.stem.partition("-")[2])


def _different(rows: Rows, wanted: Rows) -> int:
    different: set[str] = set()
    for replica in rows.keys() | wanted.keys():
        lines = set(rows.get(replica, ())) ^ set(wanted.get(replica, ()))
        different |= {line.partition(" ")[0] for line in lines}
    return len(different)


def _too_many_redone(plan: Plan, redone: int) -> list[str]:
    most = 0 if plan.family in LOSES_NOTHING else plan.save_every * len(plan.rounds)
    return [f"{redone} steps redone, and {most} are allowed"] if redone > most else []


def _notes(folder: Path) -> list[dict[str, Any]]:
    path = folder / "notes.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@dataclass(frozen=True)
class _Ends:
    """How one incarnation ended: exit codes by rank, and when the last worker had gone."""

    codes: Mapping[int, int]
    gone: float


def _wrong_codes(folder: Path, notes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Who did not leave with the code that asks for a restart, though a notice came in training."""
    return [
        f"rank {rank} left with {code} after a notice, start {incarnation}"
        for incarnation, ends in enumerate(_ends(folder))
        if (notices := _notices(notes, incarnation))
        and all(notice["phase"] in IN_TRAINING for notice in notices)
        for rank, code in sorted(ends.codes.items())
        if code != PREEMPTED
    ]


def _notices(notes: Sequence[Mapping[str, Any]], incarnation: int) -> list[Mapping[str, Any]]:
    """The notices to an incarnation that nothing else has struck."""
    own = [note for note in notes if note["incarnation"] == incarnation]
    struck = [note for note in own if note["what"] == "struck" and note["kind"] != "slow"]
    notices = [note for note in struck if note["kind"] in ("term", "launcher_term")]
    return notices if len(notices) == len(struck) else []


def _departures(folder: Path, notes: Sequence[Mapping[str, Any]]) -> list[Departure]:
    found = []
    for incarnation, ends in enumerate(_ends(folder)):
        if notices := _notices(notes, incarnation):
            own = [note for note in notes if note["incarnation"] == incarnation]
            first = min(notices, key=lambda note: float(note["time"]))
            seconds = round(ends.gone - first["time"], 3)
            found.append(Departure(first["phase"], seconds, _saving(own, first["time"])))
    return found


def _ends(folder: Path) -> list[_Ends]:
    """How each incarnation ended, by the launchers' events."""
    found: list[_Ends] = []
    for run in sorted(folder.glob("run_*")):
        codes: dict[int, dict[int, int]] = {}
        gone: dict[int, float] = {}
        path = run / "events.jsonl"
        for line in path.read_text().splitlines() if path.exists() else ():
            event = json.loads(line)
            if event["event"] == "exited":
                codes.setdefault(event["attempt"], {})[event["rank"]] = event["returncode"]
                gone[event["attempt"]] = event["time"]
        count = len(list(run.glob("attempt_*")))
        found += [_Ends(codes.get(n, {}), gone.get(n, 0.0)) for n in range(count)]
    return found


def _saving(notes: Sequence[Mapping[str, Any]], since: float) -> float:
    """How many seconds after a moment were spent in saves, by the slowest worker."""
    begins: dict[int, float] = {}
    spent: dict[int, float] = {}
    for note in notes:
        if note["what"] == "save begins":
            begins[note["rank"]] = note["time"]
        elif note["what"] == "save ends" and note["time"] > since:
            rank = note["rank"]
            spent[rank] = spent.get(rank, 0.0) + note["time"] - max(since, begins[rank])
    return round(max(spent.values(), default=0.0), 3)
