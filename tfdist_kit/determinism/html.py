"""A verdict as one page of HTML that needs no other file, with the distances of runs as SVG.

Verdict, Growth -> head -> verdict in words -> curves, on a logarithmic scale -> manifests
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from tfdist_kit.determinism import telling
from tfdist_kit.determinism.arms import Growth
from tfdist_kit.determinism.verifying import Verdict

_WIDTH, _HEIGHT, _LEFT, _BELOW = 720, 320, 60, 30
_FLOOR = 1e-9
"""Where the scale begins; what is the same lies on it."""
_COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#a463f2")
_STYLE = """\
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem; }
pre { white-space: pre-wrap; background: #8881; padding: 1rem; border-radius: .5rem; }
svg { width: 100%; height: auto; }
svg text { font-size: 11px; fill: currentColor; }
table { border-collapse: collapse; } td, th { padding: .2rem .8rem; text-align: left; }
td, th { border-bottom: 1px solid #8884; }
"""


def html(verdict: Verdict, growth: Growth | None = None) -> str:
    """The page."""
    return "\n".join([*_page(verdict, growth), "</body></html>", ""])


def _page(verdict: Verdict, growth: Growth | None) -> Iterator[str]:
    title = _title(verdict, growth)
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    yield f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>"
    yield f"<h1>{escape(title)}</h1>"
    told = telling.text(verdict) if growth is None else str(growth)
    yield f"<pre>{escape(told)}</pre>"
    if growth is not None:
        yield "<h2>Distance, step by step</h2>"
        yield svg(growth)
    yield from _manifests(verdict)


def _title(verdict: Verdict, growth: Growth | None) -> str:
    if verdict.failed is not None:
        return f"Run {verdict.failed[0]} failed"
    if growth is not None:
        return "Beyond the tolerance" if growth.beyond else "Within the tolerance"
    if verdict.divergence is not None:
        return f"Diverged {verdict.divergence.where}"
    return f"Identical over {len(verdict.runs)} runs"


def _manifests(verdict: Verdict) -> Iterator[str]:
    if not verdict.differences:
        return
    yield "<h2>What differs between the manifests</h2><table><tr><th>Key</th><th>First</th>"
    yield "<th>Second</th><th>What it may change</th></tr>"
    for each in verdict.differences:
        cells = (each.key, each.first, each.second, each.meaning)
        yield "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in cells) + "</tr>"
    yield "</table>"


def svg(growth: Growth) -> str:
    """The curves of a comparison: steps along, distances up, on a logarithmic scale."""
    steps = [step for curve in growth.curves.values() for step, _ in curve]
    top = max((d for curve in growth.curves.values() for _, d in curve if d < math.inf), default=1)
    scale = _Scale(min(steps), max(steps), max(top, growth.tolerance.relative, _FLOOR * 10))
    lines = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="Distance by step">']
    lines += _axes(scale)
    limit = scale.y(growth.tolerance.relative)
    lines.append(
        f'<line class="tolerance" x1="{_LEFT}" x2="{_WIDTH}" y1="{limit:.1f}" y2="{limit:.1f}" '
        'stroke="currentColor" stroke-dasharray="4 4"/>'
    )
    for number, (phase, curve) in enumerate(growth.curves.items()):
        lines += _curve(scale, number, phase, curve)
    return "\n".join([*lines, "</svg>"])


class _Scale:
    """From steps and distances to places in the picture."""

    def __init__(self, first: int, last: int, top: float) -> None:
        self.first, self.last = first, max(last, first + 1)
        self.low, self.high = math.log10(_FLOOR), math.ceil(math.log10(top))

    def x(self, step: int) -> float:
        """Where a step lies."""
        return _LEFT + (step - self.first) / (self.last - self.first) * (_WIDTH - _LEFT - 90)

    def y(self, distance: float) -> float:
        """Where a distance lies."""
        logarithm = math.log10(min(max(distance, _FLOOR), 10.0**self.high))
        share = (logarithm - self.low) / (self.high - self.low)
        return 10 + (1 - share) * (_HEIGHT - _BELOW - 10)


def _axes(scale: _Scale) -> Iterator[str]:
    for power in range(int(scale.low), int(scale.high) + 1):
        y = scale.y(10.0**power)
        name = "same" if power == int(scale.low) else f"1e{power}"
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{name}</text>'
        yield (f'<line x1="{_LEFT}" x2="{_WIDTH - 90}" y1="{y:.1f}" y2="{y:.1f}" stroke="#8884"/>')
    for step in (scale.first, scale.last):
        yield (
            f'<text x="{scale.x(step):.1f}" y="{_HEIGHT - 8}" text-anchor="middle">'
            f"step {step}</text>"
        )


def _curve(
    scale: _Scale, number: int, phase: str, curve: Sequence[tuple[int, float]]
) -> Iterator[str]:
    colour = _COLOURS[number % len(_COLOURS)]
    points = " ".join(f"{scale.x(step):.1f},{scale.y(d):.1f}" for step, d in curve)
    yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
    for step, d in curve if len(curve) == 1 else ():
        yield f'<circle cx="{scale.x(step):.1f}" cy="{scale.y(d):.1f}" r="4" fill="{colour}"/>'
    y = 20 + 16 * number
    yield f'<text x="{_WIDTH - 80}" y="{y}" style="fill:{colour}">{escape(phase)}</text>'
