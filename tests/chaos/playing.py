"""Plays a plan: starts `tfdist run`, and starts it again as an outer scheduler would.

plan -> folder -> launcher, again while it leaves with a code that asks for it -> Played
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from tests.chaos import leftovers, victim
from tests.chaos.plans import Plan

AGAIN = (42, 128 + signal.SIGTERM, -signal.SIGTERM, -signal.SIGKILL)
"""What an outer scheduler starts again."""
DEADLINE = 120.0
_MOST_LAUNCHES = 8
_OPTIONS = (
    *("--start-method", "preload", "--max-restarts", "6", "--restart-delay", "0"),
    *("--drain", "1", "--grace", "1", "--quiet-tf"),
)


@dataclass(frozen=True)
class Played:
    """What a plan has left for the judge.

    Attributes:
        plan: The plan.
        folder: Its folder.
        codes: The launchers' exit codes.
        starts: How many times the workers were started.
        seconds: How long it took.
        hung: Whether it had to be ended.
        left: What was left behind.
    """

    plan: Plan
    folder: Path
    codes: tuple[int, ...]
    starts: int
    seconds: float
    hung: bool
    left: tuple[str, ...]

    def output(self) -> str:
        """All that the launchers and the workers have written."""
        files = sorted(self.folder.glob("output_*.txt"))
        return "".join(path.read_text(errors="replace") for path in files)


def play(plan: Plan, folder: Path, data_dir: Path) -> Played:
    """Play a plan to its end, whatever that is.

    Args:
        plan: The plan.
        folder: An empty folder for everything that it writes.
        data_dir: Where TFDS keeps its data.
    """
    began, mark = time.monotonic(), uuid.uuid4().hex
    (folder / "tmp").mkdir(parents=True)
    (folder / "plan.json").write_text(json.dumps(dataclasses.asdict(plan)))
    codes: list[int] = []
    starts, hung = 0, False
    while len(codes) < _MOST_LAUNCHES and not hung:
        left_over = DEADLINE - (time.monotonic() - began)
        environ = _environ(plan, folder, data_dir, mark, starts)
        code = _launch(plan, folder, environ, len(codes), left_over)
        hung = code is None
        starts += len(list((folder / f"run_{len(codes)}").glob("attempt_*")))
        codes.append(-1 if code is None else code)
        if code not in AGAIN:
            break
    left = leftovers.of_plan(folder, mark)
    leftovers.end(mark)
    return Played(plan, folder, tuple(codes), starts, time.monotonic() - began, hung, tuple(left))


def _environ(plan: Plan, folder: Path, data_dir: Path, mark: str, starts: int) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
    return {
        **inherited,
        leftovers.MARK: mark,
        "CHAOS": str(folder),
        "CHAOS_BEFORE": str(starts),
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONPATH": os.pathsep.join(filter(None, (_ROOT, os.environ.get("PYTHONPATH", "")))),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TFDS_DATA_DIR": str(data_dir),
        "TMPDIR": str(folder / "tmp"),
    }


_ROOT = str(Path(__file__).parents[2])


def _launch(
    plan: Plan, folder: Path, environ: dict[str, str], number: int, seconds: float
) -> int | None:
    """Start the launcher and wait for its end; None if it has to be killed."""
    stall = ("--stall-timeout", "4") if plan.family == "stop" else ()
    command = [
        *(sys.executable, "-m", "tfdist_kit.cli", "run", "-n", str(plan.workers)),
        *(*_OPTIONS, *stall, "--log-dir", str(folder / f"run_{number}"), victim.__file__),
        *("--steps", str(plan.steps), "--save_every", str(plan.save_every), "--data", plan.data),
        *("--model_dir", str(folder / "job" / "checkpoints"), "--rows", str(folder / "rows")),
    ]
    with (folder / f"output_{number}.txt").open("wb") as output:
        launcher = subprocess.Popen(
            command,
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        (folder / "launcher").write_text(str(launcher.pid))
        try:
            return launcher.wait(max(1.0, seconds))
        except subprocess.TimeoutExpired:
            _ask_where(launcher)
            launcher.kill()
            launcher.wait()
            return None


def _ask_where(launcher: subprocess.Popen[bytes]) -> None:
    """Have the launcher write where every worker is."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        launcher.send_signal(signal.SIGQUIT)
        launcher.wait(5)
