"""What reaches the processes of a job step in a real Slurm, with the job script of the docs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "slurm_cluster.py"
FAST = ("by_hand", "preempted", "cancelled", "by_the_clock")
SLOW = "TFDIST_TEST_SLOWLY"
no_slurm = not shutil.which("slurmctld", path=f"{os.environ['PATH']}:/usr/sbin")
pytestmark = pytest.mark.skipif(no_slurm, reason="Slurm is not installed (slurmctld)")


def job_script() -> str:
    """The page's job script, with the line that it gives for an older Slurm."""
    page = (ROOT / "docs" / "watchers.md").read_text(encoding="utf-8")
    script, end_time = re.findall(r"^```bash\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    return str(script).replace("\nsrun ", f"\n{end_time}srun ")


def outputs(folder: Path, ways: Sequence[str]) -> dict[str, str]:
    (folder / "job.sh").write_text(job_script())
    shutil.copy(ROOT / "tests" / "adapters" / "slurm_member.py", folder / "train.py")
    here = os.path.dirname(sys.executable)
    driver = [sys.executable, "-m", "tests.adapters.slurm_jobs", str(folder), *ways]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--cpus=8", "--", *driver],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{here}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def lines(output: str, rank: int) -> list[str]:
    """What one rank has written, both times."""
    return re.findall(rf"^rank {rank}: (.*)$", output, re.MULTILINE)


def requeued(notice: str) -> list[str]:
    return ["waits", f"notice {notice}", "leaves", "restart 1"]


def test_notices_reach_every_task_and_the_job_starts_again(tmp_path: Path) -> None:
    found = outputs(tmp_path, FAST)
    for rank in (0, 1):
        told = {way: lines(output, rank) for way, output in found.items()}
        assert told == {
            "by_hand": requeued("['SIGUSR1']"),
            "preempted": requeued("['SIGTERM']"),
            "cancelled": requeued("['SIGTERM']")[:-1],
            "by_the_clock": requeued("by the clock"),
        }
    for output in found.values():  # nobody was killed for another's exit code
        assert output.index("rank 1: leaves") < output.index("rank 0: leaves")


@pytest.mark.skipif(SLOW not in os.environ, reason=f"takes half a minute; set {SLOW}=1 to run it")
def test_slurm_signals_before_the_time_limit(tmp_path: Path) -> None:
    output = outputs(tmp_path, ["before_the_limit"])["before_the_limit"]
    assert [lines(output, rank) for rank in (0, 1)] == [requeued("['SIGUSR1']")] * 2
