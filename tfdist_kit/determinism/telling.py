"""A verdict in words, and as data.

Verdict -> what came of it -> why the runs may not compare -> the workers -> text
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from tfdist_kit.determinism.arms import Growth
from tfdist_kit.determinism.explaining import Difference
from tfdist_kit.determinism.verifying import Verdict

PROVES = (
    "every digest of inputs, loss, gradients and weights is the same, so these runs computed the "
    "same bits in every recorded step"
)
PROVES_NOT = (
    "it does not show what a rarer order of threads would give (more --runs, --stress), nor "
    "another machine, thread count or version, nor what was not recorded"
)


def text(verdict: Verdict) -> str:
    """The verdict, to be read."""
    return "\n".join(_lines(verdict))


def _lines(verdict: Verdict) -> Iterator[str]:
    if verdict.failed is not None:
        number, code = verdict.failed
        yield f"run {number} failed with exit code {code}; nothing was compared"
        return
    if verdict.divergence is not None:
        yield str(verdict.divergence)
    else:
        yield f"identical over {len(verdict.runs)} runs, {_extent(verdict)}"
        yield f"  shown: {PROVES}"
        yield f"  not shown: {PROVES_NOT}"
    yield from comparable(verdict.differences)
    if verdict.drift is not None:
        yield str(verdict.drift)
    if verdict.between_workers:
        yield "the workers of one run are not set up alike:"
        yield from (f"  {each}" for each in verdict.between_workers)


def _extent(verdict: Verdict) -> str:
    first = verdict.runs[0]
    ranks = len(first.traces)
    whole = all(trace.is_whole for run in verdict.runs for trace in run.traces.values())
    told = f"{first.steps} steps on {ranks} rank{'s' if ranks > 1 else ''}"
    return told if whole else f"{told}, up to where a trace breaks off"


def comparable(differences: Sequence[Difference]) -> Iterator[str]:
    """Why two runs need not have the same bits, if there is a reason."""
    if differences:
        yield "their manifests differ, so that the runs need not have the same bits:"
        yield from (f"  {each}" for each in differences)


def data(verdict: Verdict, growth: Growth | None = None) -> dict[str, Any]:
    """The verdict as JSON can hold it."""
    return {
        "exit_code": verdict.exit_code,
        "runs": [run.name for run in verdict.runs],
        "steps": verdict.runs[0].steps if verdict.runs else 0,
        "ranks": sorted(verdict.runs[0].traces) if verdict.runs else [],
        "failed": list(verdict.failed) if verdict.failed else None,
        "divergence": verdict.divergence.to_dict() if verdict.divergence else None,
        "comparable": not verdict.differences,
        "differences": [asdict(each) for each in verdict.differences],
        "between_workers": [asdict(each) for each in verdict.between_workers],
        "drift": asdict(verdict.drift) if verdict.drift else None,
        "growth": asdict(growth) if growth else None,
    }
