"""The badge of a report, in the JSON that shields.io's endpoint badges read."""

from __future__ import annotations

from typing import Any

from tfdist_kit.conformance.outcomes import BAD, INCONCLUSIVE
from tfdist_kit.conformance.report.canonical import Report


def badge(report: Report) -> dict[str, Any]:
    """The badge: coverage and conformance, and green only if nothing deviates unexpectedly."""
    summary = report["summary"]
    bad = any(summary["outcomes"].get(name) for name in BAD)
    unsure = INCONCLUSIVE in summary["outcomes"]
    conformance, coverage = summary["conformance"], summary["coverage"]
    return {
        "schemaVersion": 1,
        "label": "conformance",
        "message": f"{conformance['percent']:g} % of {coverage['percent']:g} % covered",
        "color": "red" if bad else "yellow" if unsure else "brightgreen",
    }
