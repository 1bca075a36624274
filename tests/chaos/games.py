"""Many plans, played and judged in a folder that also holds the data and the uninterrupted runs."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from tests.chaos.judging import Reference, Verdict, judge, reference
from tests.chaos.plans import Plan
from tests.chaos.playing import play

Kind = tuple[int, str, int]


class Games:
    """Plays plans of one seed.

    Attributes:
        references: The uninterrupted run of each kind: workers, way of the data, steps.

    Args:
        seed: For what is told of them.
        keep: Where the folders of plans that failed are kept; None to keep none.
        keep_all: Whether those of all others are kept, too.
    """

    def __init__(self, seed: int, keep: Path | None, *, keep_all: bool = False) -> None:
        self._seed = seed
        self._keep = keep
        self._keep_all = keep_all
        self.references: dict[Kind, Reference] = {}

    def __enter__(self) -> Games:
        self._folder = Path(tempfile.mkdtemp(prefix="tfdist-chaos-"))
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder)

    def verdicts(self, plans: Sequence[Plan], jobs: int) -> list[Verdict]:
        """Play plans, so many at once, beginning with the uninterrupted run of each kind."""
        missing = {_kind(plan): plan for plan in plans if _kind(plan) not in self.references}
        with ThreadPoolExecutor(jobs) as pool:
            self.references |= zip(
                missing, pool.map(self._reference, missing.values()), strict=True
            )
            return list(pool.map(self._verdict, plans))

    def _reference(self, plan: Plan) -> Reference:
        name = f"uninterrupted-{plan.workers}-{plan.data}-{plan.steps}"
        calm = replace(plan, name=name, rounds=())
        return reference(play(calm, self._folder / name, self._folder / "data"))

    def _verdict(self, plan: Plan) -> Verdict:
        folder = self._folder / plan.name
        played = play(plan, folder, self._folder / "data")
        verdict = judge(played, self.references[_kind(plan)])
        if self._keep and (verdict.troubles or self._keep_all):
            kept = self._keep / f"{plan.name}-{self._seed}"
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(folder, kept)
        shutil.rmtree(folder)
        self._tell(verdict)
        return verdict

    def _tell(self, verdict: Verdict) -> None:
        ended = "; ".join(verdict.troubles) or "ok"
        print(f"{verdict.seconds:5.1f} s  {verdict.plan}: {ended}", flush=True)
        if verdict.troubles:
            steps = f"--steps {verdict.steps}"
            again = f"python -m tests.chaos --seed {self._seed} {steps} --plan {verdict.name}"
            print(f"         {again}", flush=True)


def _kind(plan: Plan) -> Kind:
    return plan.workers, plan.data, plan.steps
