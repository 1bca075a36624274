"""The example programs, run as the README says, in every role they know."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import DEADLINE, Result, script, tfdist

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "scripts"
CONFIGS = ROOT / "configs"
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3"}


def run(folder: Path, *args: str | Path) -> Result:
    result = tfdist("run", "--timeout", "110", *args, folder=folder, env=QUIET)
    assert result.code == 0, result.err
    return result


def accuracy(text: str) -> float:
    return float(re.findall(r"test accuracy +([\d.]+)%", text)[-1])


def test_keras_on_two_workers_learns_the_digits(tmp_path: Path) -> None:
    """What `make demo` shows."""
    out = run(tmp_path, "--config", CONFIGS / "demo.toml", SCRIPTS / "train_digits_keras.py").out
    assert accuracy(out) > 95
    for row in ("workers +2", r"examples/s +[\d,]+", "logs +.*/tfdist-"):
        assert re.search(rf"\[rank 0\] {row}", out), out


def test_a_loop_of_ones_own_learns_the_digits_under_compat_v1(tmp_path: Path) -> None:
    name = SCRIPTS / "train_digits_custom_loop.py"
    out = run(tmp_path, "--config", CONFIGS / "compat_v1.toml", "--log-dir", "logs", name).out
    assert accuracy(out) > 95
    saved = {path.name for path in (tmp_path / "logs").iterdir()}
    saved -= {"preload.log"}
    assert saved == {"attempt_0", "checkpoints", "events.jsonl", "plan.json"}


@pytest.mark.parametrize("name", ["train_digits_keras.py", "train_digits_custom_loop.py"])
def test_an_evaluator_follows_chief_and_worker(tmp_path: Path, name: str) -> None:
    preset = CONFIGS / "chief_worker_evaluator.toml"
    result = run(tmp_path, "--config", preset, SCRIPTS / name, "--epochs", "2")
    evaluated = [line for line in result.out.splitlines() if line.startswith("[rank 2] epoch 2")]
    assert len(evaluated) == 1
    by_chief = accuracy("\n".join(re.findall(r"^\[rank 0\].*", result.out, re.MULTILINE)))
    assert accuracy(evaluated[0]) == by_chief


@pytest.mark.parametrize(
    ("body", "code", "told"),
    [("", 0, "trained"), ("raise SystemExit(7)", 7, "failed with exit code 7")],
)
def test_a_projects_own_script_uses_the_exit_code(
    tmp_path: Path, body: str, code: int, told: str
) -> None:
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    done = subprocess.run(
        [SCRIPTS / "launch_two_workers.sh", script(tmp_path, body)],
        cwd=tmp_path,
        env={"PATH": path, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
    )
    assert done.returncode == code
    assert told in done.stdout
