"""One claim in the page: the statement, what was seen in each rank, and how to see it again."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from tfdist_kit.conformance.report.canonical import Report


def tone(name: str) -> str:
    """The class of an outcome, or of what became of a check or a mutant."""
    return name.replace(" ", "-")


def needed(claim: Report) -> list[str]:
    """What a claim needs, as words that can be filtered by."""
    wanted = claim["needs"].items()
    return [name if value is True else f"{name}={value}" for name, value in wanted]


def claim_html(claim: Report, page: str) -> Iterator[str]:
    """The lines of a claim.

    Args:
        claim: As the report has it.
        page: The address of its document; may be empty.
    """
    attributes = {
        "id": claim["id"],
        "data-outcome": tone(claim["outcome"]),
        "data-document": claim["document"],
        "data-level": claim["level"],
        "data-needs": " ".join(needed(claim)),
    }
    told = " ".join(f'{name}="{escape(value)}"' for name, value in attributes.items())
    yield f'<details class="claim {tone(claim["outcome"])}" {told}>'
    yield f'<summary><span class="outcome">{escape(claim["outcome"])}</span>'
    yield f'<span><span class="statement">{escape(claim["statement"])}</span>'
    yield f'<span class="id">{escape(claim["id"])} <b>{escape(claim["level"])}</b></span>'
    yield "</span></summary>"
    yield '<div class="more">'
    if claim["reason"]:
        yield f'<div class="reason">{escape(claim["reason"])}</div>'
    yield from (f"<p>{escape(finding)}</p>" for finding in claim["findings"])
    yield from _facts(claim, page)
    for check in claim["checks"]:
        yield from _check(check)
    yield from _mutants(claim)
    if claim["checks"]:
        yield "<h3>See it again</h3>"
        yield f'<div class="reproduce"><pre>{escape(claim["reproduce"])}</pre>'
        yield '<button type="button" class="copy">Copy</button></div>'
    yield "</div></details>"


def _facts(claim: Report, page: str) -> Iterator[str]:
    document = escape(f"{claim['document']}, {claim['anchor']}")
    if page.startswith("https://"):
        href = escape(f"{page}#{claim['anchor']}")
        document = f'<a href="{href}" rel="noopener">{document}</a>'
    yield '<dl class="facts">'
    yield f"<dt>Document</dt><dd>{document}</dd>"
    yield f"<dt>Kind</dt><dd>{escape(claim['kind'])}, {escape(claim['level'])}</dd>"
    wanted = ", ".join(needed(claim)).replace("_", " ").replace("=", ": ")
    yield f"<dt>Needs</dt><dd>{escape(wanted) or 'one worker'}</dd>"
    deviation = claim["deviation"]
    if deviation is not None:
        cured = "; the kit's adapter cures it" if deviation["cured_by_adapter"] else ""
        versions = f"{deviation['verdict']}, TensorFlow {deviation['tensorflow']}"
        told = f"{versions}: {deviation['seen']}{cured}"
        yield f"<dt>Expected</dt><dd>{escape(told)}</dd>"
        if deviation["link"].startswith("https://"):
            link = escape(deviation["link"])
            yield f'<dt>Reported</dt><dd><a href="{link}" rel="noopener">{link}</a></dd>'
    yield "</dl>"


def _check(check: Report) -> Iterator[str]:
    yield f"<h3>{escape(check['check'])}</h3>"
    if check["ranks"]:
        yield '<div class="scroll"><table><thead><tr><th>Worker</th><th>Verdict</th>'
        yield "<th>What it said</th></tr></thead><tbody>"
        for rank in check["ranks"]:
            yield f"<tr><td>{escape(rank['name'])}</td>"
            yield f'<td class="outcome {tone(rank["kind"])}">{escape(rank["kind"])}</td>'
            yield f"<td>{_pre(rank['text'])}</td></tr>"
        yield "</tbody></table></div>"
    elif check["kind"] != "held":
        yield _pre(check["text"])
    if check["tries"]:
        yield f"<p>Run again: {escape(', '.join(check['tries']))}.</p>"
    yield f"<details><summary>Source, {escape(check['path'])}:{check['line']}</summary>"
    yield f"{_pre(check['source'])}</details>"


def _pre(text: str) -> str:
    return f"<pre>{escape(text)}</pre>" if text else ""


def _mutants(claim: Report) -> Iterator[str]:
    if not claim["mutants"]:
        return
    yield '<h3>Mutants</h3><div class="scroll"><table><tbody>'
    for one in claim["mutants"]:
        yield f"<tr><td>{escape(one['mutant'])}</td>"
        yield f'<td class="outcome {tone(one["result"])}">{escape(one["result"])}</td>'
        yield f"<td>{_pre(one['text'])}</td></tr>"
    yield "</tbody></table></div>"
