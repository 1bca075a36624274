"""Ages and memory, measured and in words."""

from __future__ import annotations

import os
from pathlib import Path

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_MIB, _GIB = 1 << 20, 1 << 30


def resident(pid: int) -> int | None:
    """A process' resident memory in bytes; None where it cannot be known."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_bytes().split()[1])
    except (OSError, IndexError, ValueError):
        return None
    return pages * os.sysconf("SC_PAGESIZE")


def age(seconds: float) -> str:
    """``3 s``, ``12 min``, ``5 h`` or ``2 d``."""
    if seconds < _MINUTE:
        return f"{max(0, int(seconds))} s"
    if seconds < _HOUR:
        return f"{int(seconds // _MINUTE)} min"
    return f"{int(seconds // _HOUR)} h" if seconds < _DAY else f"{int(seconds // _DAY)} d"


def memory(size: int) -> str:
    """``512 MiB`` or ``1.5 GiB``."""
    return f"{size / _GIB:.1f} GiB" if size >= _GIB else f"{size / _MIB:.0f} MiB"
