"""Tells of one thing once for each line of the user's."""

from __future__ import annotations

import logging
import sys

from tfdist_kit import _frames
from tfdist_kit._errors import UsageError

_log = logging.getLogger("tfdist_kit.adapters.op_determinism")
_told: set[tuple[str, str]] = set()


def tell(message: str, hint: str, *, refuses: bool) -> None:
    """Warn, or raise, with the line of the user's that is running.

    Args:
        message: What is not deterministic.
        hint: What to do about it.
        refuses: Whether to raise.

    Raises:
        UsageError: If so.
    """
    line = _frames.calling_line(sys._getframe(1)) or "a line that is not known"
    if refuses:
        raise UsageError(f"{message}: {line}", hint=hint)
    if (message, line) not in _told:
        _told.add((message, line))
        _log.warning("%s: %s; hint: %s", message, line, hint)
