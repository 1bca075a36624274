"""What the kernel tells about a process, read from ``/proc``.

Every question has an answer for a process that has gone, or where there is no ``/proc``.
"""

from __future__ import annotations

import os
from pathlib import Path

_STATE, _USER_TICKS, _SYSTEM_TICKS, _START_TIME = 0, 11, 12, 19
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def start_time(pid: int) -> int | None:
    """When the process started, in ticks since the machine did; with it a pid is unmistakable.

    Returns:
        None when there is no such process.
    """
    fields = _stat(pid)
    return int(fields[_START_TIME]) if fields and fields[_STATE] not in "ZX" else None


def cpu_seconds(pid: int) -> float:
    """The processor time that the process has used so far, all its threads together."""
    fields = _stat(pid)
    if not fields:
        return 0.0
    return (int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS])) / _TICKS_PER_SECOND


def why_deaf(pid: int, signum: int) -> str:
    """Why a process cannot answer a signal that it must have a handler for; empty if it can."""
    fields = _stat(pid)
    if not fields or fields[_STATE] in "ZX":
        return "its process has ended"
    if fields[_STATE] in "Tt":
        return "its process is stopped (SIGSTOP, or a debugger)"
    if not _has(_status(Path(f"/proc/{pid}/status")), "SigCgt", signum):
        return "it has not begun, or no longer heeds the signal that asks for its stacks"
    if all(_has(thread, "SigBlk", signum) for thread in _threads(pid)):
        return "it blocks the signal that asks for its stacks"
    return ""


def _stat(pid: int) -> list[str]:
    """The fields of ``/proc/PID/stat`` from the state on."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()  # the name before it may hold anything


def _threads(pid: int) -> list[dict[str, str]]:
    return [_status(path) for path in Path(f"/proc/{pid}/task").glob("*/status")]


def _status(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _has(status: dict[str, str], mask: str, signum: int) -> bool:
    return bool(int(status.get(mask, "0"), 16) >> (signum - 1) & 1)
