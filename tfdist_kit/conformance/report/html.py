"""A report as one page of HTML that needs no other file: style, script and data are in it.

Report -> head (numbers) -> filters -> a claim each (`claim_html`) -> the canonical JSON

Every claim is written out, so that the page can be read, searched and printed without its script.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path

from tfdist_kit.conformance.outcomes import OUTCOMES
from tfdist_kit.conformance.report.canonical import Report, dumped
from tfdist_kit.conformance.report.claim_html import claim_html, needed, tone
from tfdist_kit.conformance.report.side_by_side import names, rows

_HERE = Path(__file__).parent
_EXPLAINED = {
    "coverage": "testable claims have a check",
    "conformance": "answered claims conform",
    "mutation": "mutants were killed",
}


def html(report: Report, other: Report | None = None) -> str:
    """The page.

    Args:
        report: The report.
        other: One of the other subject, to be shown next to it.
    """
    return "\n".join((*_head(report), *_body(report, other), "</html>")) + "\n"


def _head(report: Report) -> Iterator[str]:
    yield "<!doctype html>"
    yield '<html lang="en">'
    yield "<head>"
    yield '<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>Conformance of {escape(_subject(report))}</title>"
    yield f"<style>{(_HERE / 'page.css').read_text(encoding='utf-8')}</style>"
    yield "</head>"


def _subject(report: Report) -> str:
    version = report["environment"]["tensorflow"] or "(none)"
    return f"TensorFlow {version}" + (" with tfdist" if report["subject"] == "adapter" else "")


def _body(report: Report, other: Report | None) -> Iterator[str]:
    yield '<body><a class="skip" href="#claims">To the claims</a>'
    yield "<header>"
    yield f"<h1>Conformance of {escape(_subject(report))}</h1>"
    yield f'<p class="around">{escape(_around(report))}</p>'
    yield '<dl class="numbers">'
    yield from _numbers(report)
    yield "</dl>"
    yield from _bar(report)
    if other is not None:
        yield f'<p><a href="#side-by-side">{escape(" and ".join(names(report, other)))}</a></p>'
    yield "</header><main>"
    yield from _filters(report)
    yield '<p id="shown" class="shown" role="status"></p>'
    yield '<section id="claims" aria-label="Claims" tabindex="-1">'
    for claim in report["claims"]:
        yield from claim_html(claim, _page(report, claim["document"]))
    yield "</section>"
    yield '<p id="nothing" class="nothing" hidden>No claim fits.</p>'
    yield from _comparison(report, other)
    yield "</main>"
    data = dumped(report).replace("<", "\\u003c")
    yield f'<script type="application/json" id="report">{data}</script>'
    yield f"<script>{(_HERE / 'page.js').read_text(encoding='utf-8')}</script>"
    yield "</body>"


def _around(report: Report) -> str:
    around = report["environment"]
    keras = ", ".join(f"{n} {around[n]}" for n in ("keras", "tf_keras") if around.get(n))
    parts = (keras, f"Python {around['python']}", around["machine"], f"tfdist-kit {report['kit']}")
    return ", ".join(filter(None, parts))


def _numbers(report: Report) -> Iterator[str]:
    for name, explained in _EXPLAINED.items():
        share = report["summary"][name]
        if share is not None:
            told = f"{share['count']} of {share['of']} {explained}"
            yield f"<div><dt>{name.capitalize()}</dt>"
            yield f"<dd>{share['percent']:g} %<small>{told}</small></dd></div>"


def _counts(report: Report) -> Iterator[tuple[str, int]]:
    found = report["summary"]["outcomes"]
    yield from ((name, found[name]) for name in OUTCOMES if found.get(name))


def _bar(report: Report) -> Iterator[str]:
    yield '<div class="bar" aria-hidden="true">'
    for name, count in _counts(report):
        yield f'<span class="{tone(name)}" style="flex:{count};color:var(--tone)"></span>'
    yield "</div>"


def _filters(report: Report) -> Iterator[str]:
    claims = report["claims"]
    yield '<div class="filters" role="search" hidden><div class="row chips">'
    for name, count in _counts(report):
        yield (
            f'<button type="button" class="chip {tone(name)}" data-outcome="{tone(name)}" '
            f'aria-pressed="false">{escape(name)} <span>{count}</span></button>'
        )
    yield '</div><div class="row">'
    yield '<input type="search" id="search" placeholder="Search ( / )" aria-label="Search">'
    yield from _select("document", "All documents", (each["document"] for each in claims))
    yield from _select("level", "All levels", (each["level"] for each in claims))
    yield from _select("needs", "Whatever needed", (n for each in claims for n in needed(each)))
    yield '<button type="button" id="reset">Reset</button>'
    yield '<button type="button" id="all">Open or close all</button></div></div>'


def _select(name: str, everything: str, values: Iterable[str]) -> Iterator[str]:
    yield f'<select name="{name}" aria-label="{name.capitalize()}">'
    yield f'<option value="">{everything}</option>'
    for value in sorted(set(values)):
        shown = value.replace("_", " ").replace("=", ": ")
        yield f'<option value="{escape(value)}">{escape(shown)}</option>'
    yield "</select>"


def _page(report: Report, document: str) -> str:
    return next((each["page"] for each in report["documents"] if each["name"] == document), "")


def _comparison(report: Report, other: Report | None) -> Iterator[str]:
    if other is None:
        return
    found = [row for row in rows(report, other) if row.differs]
    one, two = names(report, other)
    yield f'<section id="side-by-side"><h2>{escape(f"{one} and {two}".capitalize())}</h2>'
    if not found:
        yield "<p>Every claim has the same outcome in both.</p></section>"
        return
    yield '<div class="scroll"><table><thead>'
    yield f"<tr><th>Claim</th><th>{escape(one)}</th><th>{escape(two)}</th></tr></thead><tbody>"
    for row in found:
        yield f'<tr><td><a href="#{escape(row.claim)}">{escape(row.statement)}</a></td>'
        for outcome in (row.first, row.second):
            yield f'<td class="outcome {tone(outcome)}">{escape(outcome)}</td>'
        yield "</tr>"
    yield "</tbody></table></div></section>"
