"""What is done to a training, drawn from a seed: the same seed gives the same plans."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

EARLY = ("start-up", "strategy", "handler", "trace")
MIDDLE = ("step", "step", "step", "periodic save")
LATE = ("last step", "finish", "evaluation", "exit")
DELAYS = {
    "start-up": 0.2,
    "strategy": 0.3,
    "handler": 0.3,
    "trace": 0.8,
    "step": 0.01,
    "periodic save": 0.03,
    "preemption save": 0.03,
    "leaving": 0.1,
    "last step": 0.02,
    "finish": 0.03,
    "evaluation": 0.1,
    "exit": 0.1,
}
"""The phases of a worker's life, and up to how many seconds after their begin a blow falls."""
SAVES = ("periodic save", "preemption save", "finish")


@dataclass(frozen=True)
class Blow:
    """Something that happens to one worker, or to the launcher while that worker is in a phase.

    Attributes:
        kind: ``term``, ``kill``, ``stop``, ``disk``, ``unwritable``, ``slow``, ``launcher_term``
            or ``launcher_kill``.
        rank: The worker.
        phase: When.
        step: The earliest step, where the phase is ``step``.
        delay: Seconds from the phase's begin.
        seconds: How long it lasts, where it does.
    """

    kind: str
    rank: int
    phase: str
    step: int = 0
    delay: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True)
class Plan:
    """One training and its blows.

    Attributes:
        name: Family and number.
        workers: How many.
        data: Which way of the worked example.
        steps: How many the training has.
        save_every: Steps between its periodic saves.
        rounds: The blows to its first start, to its second, and so on.
    """

    name: str
    workers: int
    data: str
    steps: int
    save_every: int
    rounds: Sequence[Sequence[Blow]]

    @property
    def family(self) -> str:
        """What kind of blows it has."""
        return self.name.partition("-")[0]

    def told(self) -> str:
        """The plan in a line."""
        blows = "; ".join(
            " + ".join(f"{blow.kind} {blow.rank} {_when(blow)}" for blow in blows)
            for blows in self.rounds
        )
        return f"{self.name} ({self.workers} workers, {self.data}): {blows}"


def _when(blow: Blow) -> str:
    return f"step {blow.step}" if blow.phase == "step" else blow.phase


def from_record(record: Mapping[str, Any]) -> Plan:
    """A plan from what `dataclasses.asdict` made of it."""
    rounds = [[Blow(**blow) for blow in blows] for blows in record["rounds"]]
    return Plan(**{**record, "rounds": rounds})


def draw(seed: int, name: str, steps: int) -> Plan:
    """The plan of that name: ``term-3`` is the fourth with SIGTERM."""
    family = name.partition("-")[0]
    chance = random.Random(f"{seed}/{name}")
    workers, data = chance.choice((2, 2, 3)), chance.choice(("steps", "iterator"))
    rounds = FAMILIES[family](_Drawing(chance, workers, steps))
    return Plan(name, workers, data, steps, max(2, steps // 8), rounds)


class _Drawing:
    """The making of one plan."""

    def __init__(self, chance: random.Random, workers: int, steps: int) -> None:
        self.chance = chance
        self.workers = workers
        self.steps = steps

    def some(self) -> list[int]:
        """Any workers, at least one."""
        ranks = range(self.workers)
        return sorted(self.chance.sample(ranks, self.chance.randint(1, self.workers)))

    def one(self) -> list[int]:
        return [self.chance.randrange(self.workers)]

    def moments(self, most: int, late: Sequence[str] = LATE) -> list[tuple[str, int]]:
        """Up to `most` phases in the order in which a training comes to them, with their steps."""
        count = self.chance.randint(1, most)
        steps = sorted(self.chance.randrange(1, self.steps - 1) for _ in range(count))
        phases = [self.chance.choice(EARLY + MIDDLE) for _ in range(count)]
        if late and self.chance.random() < 0.4:
            phases[-1] = self.chance.choice(late)
        return list(zip(phases, steps, strict=True))

    def blows(
        self, kind: str, ranks: Sequence[int], phase: str, step: int = 0, seconds: float = 0.0
    ) -> list[Blow]:
        step = step if phase == "step" else 0
        return [
            Blow(kind, rank, phase, step, self.chance.uniform(0, DELAYS[phase]), seconds)
            for rank in ranks
        ]


def _term(drawing: _Drawing) -> list[list[Blow]]:
    rounds = []
    for phase, step in drawing.moments(3):
        blows = drawing.blows("term", drawing.some(), phase, step)
        if drawing.chance.random() < 0.25:  # a second notice
            again = drawing.chance.choice(("preemption save", "leaving"))
            blows += drawing.blows("term", drawing.some(), again)
        rounds.append(blows)
    return rounds


def _kill(drawing: _Drawing) -> list[list[Blow]]:
    rounds = []
    for phase, step in drawing.moments(2):
        blows = drawing.blows("kill", drawing.one(), phase, step)
        if drawing.chance.random() < 0.25:  # killed in the midst of a save after a notice
            blows = drawing.blows("term", drawing.some(), phase, step)
            blows += drawing.blows("kill", drawing.one(), "preemption save")
        rounds.append(blows)
    return rounds


def _stop(drawing: _Drawing) -> list[list[Blow]]:
    [(phase, step)] = drawing.moments(1, late=("last step", "finish"))
    return [drawing.blows("stop", drawing.one(), phase, step)]


def _disk(drawing: _Drawing) -> list[list[Blow]]:
    phase = drawing.chance.choice(SAVES)
    return [_on_save(drawing, "disk", phase)]


def _unwritable(drawing: _Drawing) -> list[list[Blow]]:
    phase = drawing.chance.choice((*SAVES, "handler"))
    return [_on_save(drawing, "unwritable", phase)]


def _slow(drawing: _Drawing) -> list[list[Blow]]:
    phase = drawing.chance.choice(SAVES)
    seconds = drawing.chance.uniform(0.5, 2.5)
    return [_on_save(drawing, "slow", phase, seconds)]


def _on_save(drawing: _Drawing, kind: str, phase: str, seconds: float = 0.0) -> list[Blow]:
    blow = drawing.blows(kind, drawing.one(), phase, 0, seconds)
    step = drawing.chance.randrange(1, drawing.steps - 1)
    if phase == "preemption save":
        return blow + drawing.blows("term", drawing.some(), "step", step)
    if kind == "slow":  # a notice in the midst of it
        return blow + drawing.blows("term", drawing.some(), phase, step)
    return blow


def _launcher_term(drawing: _Drawing) -> list[list[Blow]]:
    rounds = []
    for phase, step in drawing.moments(2):
        blows = drawing.blows("launcher_term", drawing.one(), phase, step)
        if drawing.chance.random() < 0.5:
            seconds = drawing.chance.uniform(0.5, 2.5)
            blows += drawing.blows("slow", drawing.one(), "preemption save", 0, seconds)
        rounds.append(blows)
    return rounds


def _launcher_kill(drawing: _Drawing) -> list[list[Blow]]:
    return [
        drawing.blows("launcher_kill", drawing.one(), phase, step)
        for phase, step in drawing.moments(2)
    ]


FAMILIES = {
    "term": _term,
    "kill": _kill,
    "stop": _stop,
    "disk": _disk,
    "unwritable": _unwritable,
    "slow": _slow,
    "launcher_term": _launcher_term,
    "launcher_kill": _launcher_kill,
}
LOSES_NOTHING = ("term", "slow", "launcher_term")
"""Families whose blows may cost no step: a notice always leaves the time to save."""
