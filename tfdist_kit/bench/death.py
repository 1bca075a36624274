"""How fast the launcher notices that a worker was killed, and ends the others.

One of two TensorFlow workers, both in a loop of all-reduces, notes the time and kills itself. The
clock stops when the launcher has seen the end of the killed worker, and of the other. Drain and
grace are 0, since they are waiting times that the user chooses.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tfdist_kit.bench.contest import TFDIST_RUN, TOTAL, Contest

DIES = (
    TOTAL
    + """\
import os, time
for step in range(10**9):
    total()
    if step == 20 and os.environ["TFDIST_RANK"] == "1":
        with open(os.environ["KILLED_AT"], "w") as file:
            file.write(repr(time.time()))
        os.kill(os.getpid(), 9)
"""
)
_KILLED = 137
_AT_ONCE = ("--drain", "0", "--grace", "0")


def contests(folder: Path) -> Iterator[Contest]:
    """What is measured about a worker's death."""
    script = folder / "dies.py"
    script.write_text(DIES)
    delays: list[float] = []

    def noticed() -> float:
        first, last = time_to_notice(folder, script)
        delays.append(last)
        return first

    yield Contest(
        "a worker is killed",
        {"it is noticed": noticed, "its group is reaped": lambda: delays[-1]},
        "it is noticed",
    )


def time_to_notice(
    folder: Path, script: Path, options: Sequence[str] = _AT_ONCE, ends_with: int = _KILLED
) -> tuple[float, float]:
    """From the kill to the first, and to the last end that the launcher has seen, in seconds.

    Args:
        folder: Where files may be left.
        script: A script of which rank 1 writes the time to the file ``KILLED_AT`` and kills itself.
        options: Of `tfdist run`.
        ends_with: The exit code that it then has.
    """
    logs, stamp = folder / f"logs-{time.monotonic_ns()}", folder / "killed_at"
    command = [*TFDIST_RUN, "-n", "2", "--log-dir", str(logs)]
    command += [*options, "--env", f"KILLED_AT={stamp}", str(script)]
    code = subprocess.run(command, capture_output=True, check=False).returncode
    if code != ends_with:
        raise RuntimeError(f"tfdist run left with {code}, not with {ends_with}")
    events = [json.loads(line) for line in (logs / "events.jsonl").read_text().splitlines()]
    ends = [event["time"] for event in events if event["event"] == "exited"]
    killed_at = float(stamp.read_text())
    return ends[0] - killed_at, ends[-1] - killed_at
