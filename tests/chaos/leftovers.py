"""What a training has left behind: processes, ports, and files that nobody wants."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

MARK = "TFDIST_CHAOS_MARK"
_PATIENCE = 3.0
_LISTENS = "0A"
_UNWANTED = re.compile(r"^workertemp_|_temp$|^probe_|\.tempstate|^away$")


def living(mark: str) -> list[int]:
    """Every process that was started under a mark, zombies apart."""
    needle, found = f"{MARK}={mark}".encode(), []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # it has ended, or is not ours
            if entry.name.isdigit() and needle in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def end(mark: str) -> None:
    """Kill whatever still lives under a mark."""
    for pid in living(mark):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def of_plan(folder: Path, mark: str) -> list[str]:
    """What is left of a plan that has ended.

    Args:
        folder: The plan's folder.
        mark: What its processes have in their environment.
    """
    return [
        *_processes(mark),
        *_ports(folder),
        *_checkpoint_files(folder / "job"),
        *_temp_files(folder / "tmp"),
    ]


def _processes(mark: str) -> list[str]:
    deadline = time.monotonic() + _PATIENCE
    while (left := living(mark)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return [f"process {pid}: {_command(pid)}" for pid in left]


def _ports(folder: Path) -> Iterator[str]:
    """Those of its workers on which somebody listens."""
    tables = ("/proc/net/tcp", "/proc/net/tcp6")
    rows = [line.split() for name in tables for line in _lines(Path(name))[1:]]
    open_ports = {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == _LISTENS}
    for path in sorted(folder.glob("run_*/attempt_*/plan.json")):
        workers = json.loads(path.read_text())["workers"]
        yield from (f"port {each['port']}" for each in workers if each["port"] in open_ports)


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        return command.replace(b"\0", b" ").decode(errors="replace")[:200]
    return "has ended since"


def _checkpoint_files(job: Path) -> Iterator[str]:
    for path in sorted(job.rglob("*")):
        if _UNWANTED.search(path.name):
            yield f"file {path.relative_to(job)}"
    for kind, paths in (
        ("checkpoints", list(job.glob("checkpoints/*.index"))),
        *((f"states of {own.name}", list(own.glob("*.index"))) for own in _own(job)),
    ):
        if len(paths) > 1:
            yield f"{len(paths)} {kind}"


def _own(job: Path) -> list[Path]:
    return sorted(job.glob("checkpoints/per_worker/*"))


def _temp_files(temp: Path) -> Iterator[str]:
    for path in sorted(temp.glob("*/*")) + [p for p in sorted(temp.iterdir()) if not p.is_dir()]:
        yield f"temp file {path.relative_to(temp)}"
