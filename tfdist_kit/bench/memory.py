"""What workers weigh right after they have imported TensorFlow, in proportional set size (PSS)."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tfdist_kit.bench.contest import TFDIST_RUN

WORKERS = 8
WEIGHS = """\
import os, pathlib, re, time
import tensorflow
gate, rank = pathlib.Path(os.environ["GATE"]), os.environ["TFDIST_RANK"]
def wait_for_all(stage):
    (gate / f"{stage}-{rank}").touch()
    while len(list(gate.glob(f"{stage}-*"))) < %d: time.sleep(0.01)
def pss(pid):
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(re.search(r"^Pss: +(\\d+)", text, re.M)[1])
wait_for_all("up")
mine = pss(os.getpid())
shared = pss(os.getppid()) if rank == "0" and os.environ["METHOD"] == "preload" else 0
wait_for_all("weighed")
print("PSS", mine + shared)
"""


def weigh(folder: Path, method: str) -> float:
    """The weight of all workers and of what they were forked from, in MiB.

    Args:
        folder: Where files may be left.
        method: ``"fresh"`` or ``"preload"``.
    """
    gate = folder / f"gate-{method}"
    gate.mkdir()
    script = folder / "weighs.py"
    script.write_text(WEIGHS % WORKERS)
    command = [*TFDIST_RUN, "-n", str(WORKERS)]
    options = ["--start-method", method, "--env", f"GATE={gate}", "--env", f"METHOD={method}"]
    done = subprocess.run(
        [*command, *options, str(script)], capture_output=True, text=True, check=True
    )
    kibibytes = [int(text) for text in re.findall(r"PSS (\d+)", done.stdout)]
    if len(kibibytes) != WORKERS:
        raise RuntimeError(f"{len(kibibytes)} of {WORKERS} workers were weighed")
    return sum(kibibytes) / 1024


def rows(folder: Path) -> list[str]:
    """The rows of a Markdown table: how, weight of all in MiB, ratio."""
    fresh, preload = (weigh(folder, method) for method in ("fresh", "preload"))
    what = f"{WORKERS} workers after import tensorflow, PSS of all"
    return [
        f"| {what} | fresh | {fresh:.0f} MiB | 1.00 |",
        f"| {what} | preloaded | {preload:.0f} MiB | {preload / fresh:.2f} |",
    ]
