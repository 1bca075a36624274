"""Runs jobs in a Slurm that is up, gives them notice in some way, and prints what they wrote.

    scripts/slurm_cluster.py -- python -m tests.adapters.slurm_jobs FOLDER WAY...

`FOLDER/job.sh` is the job script. The result is a JSON object of each way's output.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PATIENCE = 60.0
SETTLED = 2  # seconds; in the second in which it was requeued, the node refuses to start a job


def said(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


class Job:
    """A job of the folder's script, under way."""

    def __init__(self, folder: Path, way: str, *options: str, **environment: str) -> None:
        self._out = folder / f"{way}.out"
        exported = ",".join(["ALL", *(f"{name}={value}" for name, value in environment.items())])
        options = (f"--output={self._out}", f"--export={exported}", *options)
        command = ["sbatch", "--parsable", *options, str(folder / "job.sh")]
        self.number = said(*command).strip()
        self._ask_at = 0.0

    def text(self) -> str:
        return self._out.read_text() if self._out.exists() else ""

    def state(self) -> str:
        return said("scontrol", "show", "job", self.number)

    def wait_for(self, text: str, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Wait until both tasks have written the text."""
        deadline = time.monotonic() + PATIENCE
        while self.text().count(text) < 2:
            if time.monotonic() > deadline:
                raise RuntimeError(f"not written: {text!r}\n{self.text()}\n{self.state()}")
            meanwhile()
            time.sleep(0.05)

    def start_again(self) -> None:
        """Wait until it is requeued, and have it start without the usual delay."""
        self.wait_for("restart 1", self._start_if_requeued)

    def _start_if_requeued(self) -> None:
        state = self.state()  # what is asked for while it still ends is forgotten
        waits = "JobState=PENDING" in state and "Restarts=1" in state
        if waits and time.monotonic() > self._ask_at:
            said("scontrol", "update", "job", self.number, f"StartTime=now+{SETTLED}")
            self._ask_at = time.monotonic() + 2 * SETTLED


def by_hand(folder: Path) -> str:
    job = Job(folder, "by_hand")
    job.wait_for("waits")
    said("scancel", "--signal=USR1", job.number)
    job.start_again()
    return job.text()


def before_the_limit(folder: Path) -> str:
    job = Job(folder, "before_the_limit", "--time=1", "--signal=USR1@60")
    job.start_again()
    return job.text()


def preempted(folder: Path) -> str:
    job = Job(folder, "preempted", "--partition=low", "--exclusive")
    job.wait_for("waits")
    said("srun", "--partition=high", "--ntasks=2", "true")
    job.start_again()
    return job.text()


def cancelled(folder: Path) -> str:
    job = Job(folder, "cancelled")
    job.wait_for("waits")
    said("scancel", job.number)
    job.wait_for("leaves")
    return job.text()


def by_the_clock(folder: Path) -> str:
    job = Job(folder, "by_the_clock", "--time=1", BEFORE_END="59")
    job.start_again()
    return job.text()


WAYS: dict[str, Callable[[Path], str]] = {
    way.__name__: way for way in (by_hand, before_the_limit, preempted, cancelled, by_the_clock)
}


def main() -> None:
    folder, *ways = sys.argv[1:]
    os.chdir(folder)
    together = [way for way in ways if way != preempted.__name__]
    with ThreadPoolExecutor() as pool:
        waiting = {way: pool.submit(WAYS[way], Path(folder)) for way in together}
    found = {way: job.result() for way, job in waiting.items()}
    if preempted.__name__ in ways:  # takes the whole node
        found[preempted.__name__] = preempted(Path(folder))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
