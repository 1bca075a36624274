"""Makes what a check says the same in each run: no paths, addresses, ports, pids or times."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

MOST_LINES = 24
MOST_CHARACTERS = 2400
_FIRST = 8
_PACKAGE = Path(__file__).parents[1]
_RULES: Sequence[tuple[str, str]] = (
    (r"[^\s:'\"]*/site-packages/", ""),
    (r"(?:/[^\s:'\"/]+)+/lib/python3\.\d+/", "python/"),
    (re.escape(f"{_PACKAGE.parent}/"), ""),
    (rf"{re.escape(tempfile.gettempdir())}/[^\s:'\",)]*", "TEMP"),
    (r"/(?:tmp|home|root|work|var)/[^\s:'\",)]*", "PATH"),
    (r"\b0x[0-9a-fA-F]{4,}\b", "0xADDRESS"),
    (r"\b\d{12,}\b", "N"),
    (r"(?s)numpy=\s*array\(.*?\)>", "numpy=...>"),
    (r"(localhost|\[::1?\]|\b\d+\.\d+\.\d+\.\d+):\d{2,5}\b", r"\1:PORT"),
    (r"\b(port|pid|PID|incarnation)([ =:]+)\d+", r"\1\2N"),
    (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.,]*", "TIME"),
    (r"\b\d+(?:\.\d+)?(?:e-?\d+)? ?(s|ms|us|seconds|milliseconds)\b", r"N \1"),
)
_COMPILED = [(re.compile(pattern), new) for pattern, new in _RULES]


def scrubbed(text: str, folder: Path | None = None) -> str:
    """The text without what changes from run to run, and not too long.

    Args:
        text: What was said.
        folder: Paths below it stay, as relative ones.
    """
    if folder is not None:
        text = text.replace(f"{folder}/", "")
    for pattern, new in _COMPILED:
        text = pattern.sub(new, text)
    lines = [line.rstrip() for line in text.strip().splitlines()]
    if len(lines) > MOST_LINES:  # the end of a traceback says most
        left_out = len(lines) - MOST_LINES
        lines = [*lines[:_FIRST], f"... {left_out} lines ...", *lines[_FIRST - MOST_LINES :]]
    short = "\n".join(lines)
    return short if len(short) <= MOST_CHARACTERS else f"{short[:MOST_CHARACTERS]} ..."
