"""Writes a report's views next to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tfdist_kit.conformance.report.badge import badge
from tfdist_kit.conformance.report.canonical import Report
from tfdist_kit.conformance.report.html import html
from tfdist_kit.conformance.report.junit import junit
from tfdist_kit.conformance.report.markdown import markdown

NAMES = ("index.html", "junit.xml", "summary.md", "badge.json")


def remove_views(folder: Path) -> None:
    """Remove those of an earlier report."""
    for name in NAMES:
        (folder / name).unlink(missing_ok=True)


def write_views(folder: Path, report: Report, other: Report | None = None) -> Iterator[Path]:
    """Write them all.

    Args:
        folder: Where to.
        report: A whole report.
        other: One of the other subject, to be shown next to it.

    Yields:
        Each file when it is written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    texts = (
        html(report, other),
        junit(report),
        markdown(report, other),
        json.dumps(badge(report), indent=1) + "\n",
    )
    for name, text in zip(NAMES, texts, strict=True):
        path = folder / name
        path.write_text(text, encoding="utf-8")
        yield path
