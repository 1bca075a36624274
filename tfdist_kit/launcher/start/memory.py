"""Whether the workers can fit into memory at all: refused only where they certainly cannot.

What is counted is anonymous memory, which nothing can take back but swapping; programs and
libraries are read from their files again when there is no room for them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tfdist_kit._errors import UsageError

MIB = 1 << 20
SURELY = 2 / 3
"""The part of what was measured that any version of Python and TensorFlow will need."""

# MiB needed once, and by each worker: the sum of Pss_Anon in /proc/PID/smaps_rollup over all
# processes, for 1 to 4 fresh and 1 to 8 forked workers at once that had just done their first
# all-reduce (without TensorFlow: an empty script). TensorFlow 2.21, Python 3.11, x86-64, no GPU.
_FRESH = {False: (0, 7), True: (0, 279)}
_PRELOADED = {False: (0, 3), True: (232, 69)}
_SYSTEM = Path("/")


def needed(workers: int, *, preload: bool, tensorflow: bool) -> int:
    """The least memory that a cluster can do with, in bytes.

    Args:
        workers: Number of processes.
        preload: Whether they are forked from one that has imported everything.
        tensorflow: Whether they use TensorFlow.
    """
    once, each = (_PRELOADED if preload else _FRESH)[tensorflow]
    return int((once + workers * each) * MIB * SURELY)


def available(system: Path = _SYSTEM) -> int | None:
    """What processes of ours could use at most, in bytes; None where the system does not tell.

    Args:
        system: The root of the file system in which ``/proc`` and ``/sys`` are read.
    """
    machine = _table(system / "proc/meminfo", 1024)
    if "MemAvailable:" not in machine:
        return None
    rooms = [machine["MemAvailable:"], *_rooms_in_cgroups(system)]
    return max(0, min(rooms)) + machine.get("SwapFree:", 0)


def check(
    workers: int, *, preload: bool = False, tensorflow: bool = False, system: Path = _SYSTEM
) -> None:
    """Refuse more workers than memory can hold; the arguments are those of the others.

    Raises:
        UsageError: They cannot fit.
    """
    least, most = needed(workers, preload=preload, tensorflow=tensorflow), available(system)
    if most is not None and least > most:
        raise UsageError(
            f"{workers} workers need at least {least // MIB} MiB of memory, and {most // MIB} MiB "
            "can be had",
            hint="start fewer workers, or allow more memory: see free -m",
        )


def _rooms_in_cgroups(system: Path) -> Iterator[int]:
    """How far each control group that this process is in is from its limit."""
    with contextlib.suppress(OSError):
        for line in (system / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            mount = system / "sys/fs/cgroup"
            if not controllers:
                yield from _rooms(mount, path, "memory.max", "memory.current", "")
            elif "memory" in controllers.split(","):
                names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
                yield from _rooms(mount / "memory", path, *names)


def _rooms(mount: Path, path: str, limit: str, usage: str, prefix: str) -> Iterator[int]:
    folder = mount / path.lstrip("/")
    for group in (folder, *folder.parents):
        if not group.is_relative_to(mount):
            return
        with contextlib.suppress(OSError, ValueError):  # without a limit, or not in our view
            held = int((group / usage).read_text())
            kept = _table(group / "memory.stat")
            files = sum(kept.get(f"{prefix}{age}active_file", 0) for age in ("in", ""))
            yield int((group / limit).read_text()) - (held - files)


def _table(path: Path, unit: int = 1) -> dict[str, int]:
    """The numbers of a file with a name and a number a line, in bytes."""
    with contextlib.suppress(OSError):
        rows = [line.split() for line in path.read_text().splitlines()]
        return {row[0]: int(row[1]) * unit for row in rows if len(row) > 1}
    return {}
