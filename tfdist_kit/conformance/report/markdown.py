"""The summary of a report as Markdown, for a pull request or a CI job's page."""

from __future__ import annotations

from collections.abc import Iterator

from tfdist_kit.conformance.outcomes import BAD, CONFORMS, INCONCLUSIVE, OUTCOMES, UNTESTABLE
from tfdist_kit.conformance.report.canonical import Report
from tfdist_kit.conformance.report.side_by_side import escaped, names, rows, table

_PLAIN = (CONFORMS, UNTESTABLE)


def markdown(report: Report, other: Report | None = None) -> str:
    """The summary.

    Args:
        report: The report.
        other: One of the other subject, to be shown next to it.
    """
    return "\n".join((*_lines(report), *_comparison(report, other))) + "\n"


def numbers(report: Report) -> Iterator[str]:
    """Coverage and conformance, always both, and the mutation score, if there is one."""
    told = (("coverage", "testable claims"), ("conformance", "answered claims"))
    for name, of in (*told, ("mutation", "mutants")):
        share = report["summary"][name]
        if share is not None:
            yield f"{name} {share['percent']:g} % ({share['count']} of {share['of']} {of})"


def _lines(report: Report) -> Iterator[str]:
    around, found = report["environment"], report["summary"]["outcomes"]
    subject = "the kit's adapters" if report["subject"] == "adapter" else "TensorFlow's own classes"
    yield "# Conformance"
    yield ""
    yield f"TensorFlow {around['tensorflow'] or 'none'}, {subject}, {around['machine']}."
    yield ""
    yield from (f"- **{line}**" for line in numbers(report))
    yield ""
    yield "| outcome | claims |"
    yield "|---|---|"
    yield from (f"| {name} | {found[name]} |" for name in OUTCOMES if name in found)
    for name in OUTCOMES:
        if name not in _PLAIN and name in found:
            yield from _those(report, name)
    yield from _survivors(report)


def _those(report: Report, outcome: str) -> Iterator[str]:
    is_open = outcome in BAD or outcome == INCONCLUSIVE
    yield ""
    yield f"<details{' open' if is_open else ''}><summary>{outcome}</summary>"
    yield ""
    for claim in report["claims"]:
        if claim["outcome"] == outcome:
            yield f"- `{claim['id']}`: {escaped(claim['statement'])}"
            yield from (f"  - {line}" for line in _why(claim))
    yield ""
    yield "</details>"


def _why(claim: Report) -> Iterator[str]:
    if claim["reason"]:
        yield escaped(claim["reason"].splitlines()[0])
    yield from map(escaped, claim["findings"])


def _survivors(report: Report) -> Iterator[str]:
    left = [
        f"- `{one['mutant']}` of `{claim['id']}`: {escaped(one['text'])}"
        for claim in report["claims"]
        for one in claim["mutants"]
        if one["result"] == "survived"
    ]
    if left:
        yield from ("", "Mutants that survived:", "", *left)


def _comparison(report: Report, other: Report | None) -> Iterator[str]:
    if other is None:
        return
    found = [row for row in rows(report, other) if row.differs]
    headings = names(report, other)
    title = " and ".join(headings).capitalize()
    yield from ("", f"## {title}", "")
    yield from table(headings, found) if found else ("Every claim has the same outcome in both.",)
