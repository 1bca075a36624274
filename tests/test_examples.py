"""The example programs, run as the README says, in every role they know."""

from __future__ import annotations

import os
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


RECOMMENDER = SCRIPTS / "train_recommender.py"


def aucs(text: str) -> list[float]:
    return [float(found) for found in re.findall(r"AUC ([\d.]+)", text)]


def python(*args: str | Path, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args],
        cwd=folder,
        env={**os.environ, **QUIET, "TMPDIR": str(folder), **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
    )


PAGE = (ROOT / "docs" / "recommender.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
GOES_ON = """\
import sys
folder, page = sys.argv[1:]
sys.path.insert(0, folder)
from absl import flags
import tensorflow as tf
import tfdist_kit
import train_recommender as example
given = "--global_batch=1024 --model_dir=model --epochs=2 --steps=20".split()
flags.FLAGS(["example", *given])
example.main([])
example.check()
tf.tpu.experimental.embedding.TPUEmbedding.apply_gradients = lambda self, gradients: None
try:
    example.check(cores=2)
except tfdist_kit.EmbeddingError as error:
    print("refused:", error)
exec(page)
"""


def test_a_recommender_on_two_workers_goes_on_alone_is_checked_and_serves(tmp_path: Path) -> None:
    options = ("--global_batch", "1024", "--model_dir", "model", "--epochs", "1")
    averages, together = aucs(run(tmp_path, "-n", "2", RECOMMENDER, *options).out)
    assert together > averages + 0.01
    *excerpts, serving = EXAMPLES
    source = RECOMMENDER.read_text(encoding="utf-8")
    assert [text for text in excerpts if text not in source] == []
    done = python("-c", GOES_ON, SCRIPTS, serving, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    alone, right, wrong = re.split("traced for a TPU of 1 host with ", done.stdout, maxsplit=2)
    assert alone.startswith("goes on after epoch 1\n")
    assert aucs(alone)[-1] > averages + 0.01
    assert right.splitlines()[0] == "8 cores; nothing found"
    assert "train: 8 enqueue, 1 dequeue, 1 apply_gradients" in right
    refused, chances = wrong.split("refused:")[1].split("tf.Tensor(")
    assert "apply_gradients" in refused
    assert all(0 < float(chance) < 1 for chance in re.findall(r"0\.\d+", chances))


def test_ratings_that_cannot_be_had_or_are_not_the_known_ones(tmp_path: Path) -> None:
    nowhere = {"MOVIELENS_DIR": str(tmp_path), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    done = python(SCRIPTS / "movielens.py", folder=tmp_path, **nowhere)
    assert done.returncode == 1
    assert f"or put ml-100k.inter, ml-100k.item, ml-100k.user into {tmp_path}" in done.stderr
    for name in ("inter", "item", "user"):
        (tmp_path / f"ml-100k.{name}").write_text("user_id:token\n")
    done = python(SCRIPTS / "movielens.py", folder=tmp_path, **nowhere)
    assert done.returncode == 1
    assert "ml-100k.inter is not the file of recbole==1.2.1" in done.stderr
