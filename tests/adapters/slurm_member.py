"""A task of a Slurm job: waits for a notice, tells what came, and leaves with 42.

Started again, it says so and is done. Rank 0 takes half a second longer than the others to leave.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from types import FrameType

from tfdist_kit.adapters.preemption_checkpoint.watchers.on_slurm import slurm_watcher

LIMIT = 100.0
notices: list[str] = []


def note(text: str) -> None:
    os.write(1, f"rank {os.environ['SLURM_PROCID']}: {text}\n".encode())


def heed(number: int, frame: FrameType | None) -> None:
    notices.append(signal.Signals(number).name)


def main() -> int:
    if "SLURM_RESTART_COUNT" in os.environ:
        note(f"restart {os.environ['SLURM_RESTART_COUNT']}")
        return 0
    for number in (signal.SIGUSR1, signal.SIGTERM):
        signal.signal(number, heed)
    ahead = os.environ.get("BEFORE_END")
    watch = slurm_watcher(float(ahead)) if ahead else (lambda: False)
    note("waits")
    ends = time.monotonic() + LIMIT
    while not notices and not watch() and time.monotonic() < ends:
        time.sleep(0.02)
    note(f"notice {notices or 'by the clock'}")
    if os.environ["SLURM_PROCID"] == "0":
        time.sleep(0.5)
    note("leaves")
    return 42


if __name__ == "__main__":
    sys.exit(main())
