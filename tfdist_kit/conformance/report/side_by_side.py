"""Two reports next to each other: TensorFlow alone and with the kit, or before and after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tfdist_kit.conformance.report.canonical import Report

NONE = "not checked"


@dataclass(frozen=True)
class Row:
    """A claim in two reports.

    Attributes:
        claim: Its id.
        statement: What it says.
        first: Its outcome in the first.
        second: Its outcome in the second.
    """

    claim: str
    statement: str
    first: str
    second: str

    @property
    def differs(self) -> bool:
        """Whether the outcomes differ."""
        return self.first != self.second


def rows(first: Report, second: Report) -> list[Row]:
    """Every claim of either, in order of the ids."""
    ones = {claim["id"]: claim for claim in first["claims"]}
    others = {claim["id"]: claim for claim in second["claims"]}
    return [
        Row(
            name,
            (others.get(name) or ones[name])["statement"],
            ones[name]["outcome"] if name in ones else NONE,
            others[name]["outcome"] if name in others else NONE,
        )
        for name in sorted({*ones, *others})
    ]


def names(first: Report, second: Report) -> tuple[str, str]:
    """How the two are called in a table."""
    if first["subject"] == second["subject"]:
        return "first", "second"
    called = {"stock": "stock", "adapter": "with tfdist"}
    return called[first["subject"]], called[second["subject"]]


def lines(first: Report, second: Report) -> Iterator[str]:
    """The claims whose outcome differs, as text."""
    found = [row for row in rows(first, second) if row.differs]
    width = max((len(row.claim) for row in found), default=0)
    for row in found:
        yield f"{row.claim:{width}}  {row.first} -> {row.second}"


def table(headings: tuple[str, str], found: Sequence[Row]) -> Iterator[str]:
    """A Markdown table."""
    yield f"| claim | {headings[0]} | {headings[1]} |"
    yield "|---|---|---|"
    for row in found:
        yield f"| `{row.claim}`: {escaped(row.statement)} | {row.first} | {row.second} |"


def escaped(text: str) -> str:
    """A text that means nothing to Markdown."""
    return text.replace("<", "&lt;").replace("|", "\\|")
