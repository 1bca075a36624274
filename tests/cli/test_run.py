"""``tfdist run`` as a command line: what is refused, what is planned, what a preset may say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import Result, script, tfdist

PRESETS = sorted((Path(__file__).parents[2] / "configs").glob("*.toml"))


def plan(folder: Path, *args: str | Path) -> dict[str, object]:
    result = tfdist("run", "--dry-run", *args, script(folder, ""), folder=folder)
    assert result.code == 0, result.err
    data: dict[str, object] = json.loads(result.out)
    return data


def nothing_was_started(folder: Path, result: Result) -> None:
    assert result.code == 2, result.err
    assert not list((folder / "tmp").rglob("attempt_*"))


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["-n", "0", "train.py"], "the number of workers is 0"),
        (["-n", "-2", "train.py"], "the number of workers is -2"),
        (["-n", "two", "train.py"], "invalid int value: 'two'"),
        (["--no-such-option", "train.py"], "--no-such-option"),
        (["absent.py"], "the script absent.py does not exist"),
        (["."], ". is a directory, not a script"),
        (["-m", "absent_module"], "no module named 'absent_module'"),
        (["--rank-filter", "2", "train.py"], "the ranks are 0 to 1"),
        (["--rank-filter", "a", "train.py"], "'a' is not a list of ranks"),
        (["--timeout", "-1", "train.py"], "--timeout is -1.0 s"),
        (["--grace", "nan", "train.py"], "--grace is nan s"),
        (["--save-timeout", "-1", "train.py"], "--save-timeout is -1.0 s"),
        (["--max-restarts", "-1", "train.py"], "the number of restarts is -1"),
        (["--restart-delay", "nan", "train.py"], "--restart-delay is nan s"),
        (["--env", "TFDIST_ATTEMPT=1", "train.py"], "the variable TFDIST_ATTEMPT was given"),
        (["--env", "NAME", "train.py"], "--env was given 'NAME'"),
        (["--env", "TF_CONFIG={}", "train.py"], "the variable TF_CONFIG was given"),
        (["--log-dir", "", "train.py"], "--log-dir is empty"),
        (["-m", "os.nope"], "no module named 'os.nope'"),
        (["-m", "json.nope.more"], "no module named 'json.nope.more'"),
        (["x" * 300 + ".py"], "the script cannot be used: [Errno 36] File name too long"),
        (["train.py/more"], "the script train.py/more does not exist"),
        (["--log-dir", "/proc/nowhere", "train.py"], "cannot be used"),
        (["--config", "absent.toml", "train.py"], "the preset absent.toml cannot be read"),
        ([], "the following arguments are required"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_starts(
    tmp_path: Path, args: list[str], told: str
) -> None:
    script(tmp_path, "")
    result = tfdist("run", *args, folder=tmp_path)
    nothing_was_started(tmp_path, result)
    assert told in result.err
    assert "Traceback" not in result.err


def test_a_script_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / script(tmp_path, "")).chmod(0)
    tmp_path.chmod(0o755)
    nobody = 65534
    done = subprocess.run(
        [sys.executable, "-c", _CHECK_AS, str(nobody if os.geteuid() == 0 else os.geteuid())],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "the script train.py cannot be read" in done.stdout


_CHECK_AS = """\
import os, sys
from tfdist_kit import UsageError
from tfdist_kit.launcher import RunRequest, check
os.setuid(int(sys.argv[1]))
try: check.check(RunRequest("train.py"))
except UsageError as error: print(error)
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("worker = 2", "the unknown key 'worker'"),
        ("start-method = 'fork'", "the start method is 'fork'"),
        ("worker = 2", "did you mean 'workers'?"),
        ("start_timeout = 2", "did you mean 'start-timeout'?"),
        ("xyzzy = 2", "known keys: workers, chief"),
        ("workers = '2'", "workers must be a whole number"),
        ("workers = true", "workers must be a whole number"),
        ("chief = 1", "chief must be true or false"),
        ("timeout = 'long'", "timeout must be a number of seconds"),
        ("args = [1]", "args must be a list of strings"),
        ("max-restarts = 1.5", "max-restarts must be a whole number"),
        ("env = {A = 1}", "env must be a table of strings"),
        ("rank-filter = ['0']", "rank-filter must be a list of ranks"),
        ("workers = ", "is not TOML"),
        (f"workers = 1{'0' * 5000}", "is not TOML"),
        (f"timeout = 1{'0' * 400}", "--timeout is inf s"),
        (f"restart-delay = 1{'0' * 400}", "--restart-delay is inf s"),
        (f"workers = 1{'0' * 400}", "file descriptors"),
        ("env = {'A=B' = ''}", "the name of a variable is 'A=B'"),
        ("env = {'' = ''}", "the name of a variable is ''"),
        (r'env = {"A\u0000" = ""}', r"the name of a variable has a NUL character in it: 'A\x00'"),
        (r'env = {A = "b\u0000"}', "the variable A has a NUL character in it"),
        (r'args = ["\u0000"]', "an argument of the script has a NUL character in it"),
        (r'log-dir = "a\u0000"', "the run folder's name has a NUL character in it"),
        ("log-dir = ''", "--log-dir is empty"),
    ],
)
def test_a_wrong_preset(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "preset.toml").write_text(text)
    script(tmp_path, "")
    result = tfdist("run", "--config", "preset.toml", "train.py", folder=tmp_path)
    nothing_was_started(tmp_path, result)
    assert told in result.err
    assert "Traceback" not in result.err


def test_options_win_over_the_preset_and_the_preset_over_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "preset.toml").write_text(
        "workers = 3\nchief = true\ngrace = 9\nsave-timeout = 30\ntimeout = 7\nargs = ['--first']\n"
        "env = {A = 'file', B = 'file'}\n"
    )
    args = ["--config", "preset.toml", "-n", "1", "--no-chief", "--timeout", "0", "--env", "A=cli"]
    name = script(tmp_path, "")
    result = tfdist("run", "--dry-run", *args, name, "--second", folder=tmp_path)
    made = json.loads(result.out)
    assert made["args"] == ["--first", "--second"]
    [worker] = made["workers"]
    assert worker["task"] == "worker:0"
    assert (worker["env"]["A"], worker["env"]["B"]) == ("cli", "file")
    deadlines = made["deadlines"]
    assert (deadlines["total"], deadlines["grace"], deadlines["drain"]) == (None, 9, 5)
    assert deadlines["save"] == 30


def test_a_dry_run_shows_the_plan_and_starts_nothing(tmp_path: Path) -> None:
    made = plan(tmp_path, "-n", "2", "--log-dir", "logs")
    assert [worker["task"] for worker in made["workers"]] == ["worker:0", "worker:1"]  # type: ignore[attr-defined]
    assert not (tmp_path / "logs").exists()


def test_restarts_are_part_of_the_plan(tmp_path: Path) -> None:
    (tmp_path / "preset.toml").write_text("max-restarts = 3\nrestart-delay = 0.5\n")
    assert plan(tmp_path)["restarts"] == {"limit": 0, "delay": 1.0}
    assert plan(tmp_path, "--config", "preset.toml")["restarts"] == {"limit": 3, "delay": 0.5}
    args = ["--config", "preset.toml", "--max-restarts", "0"]
    assert plan(tmp_path, *args)["restarts"] == {"limit": 0, "delay": 0.5}


def test_everything_after_the_script_is_the_scripts_own(tmp_path: Path) -> None:
    args = ["-n", "9", "--help", "--", "--flagfile=x", "--config", "y"]
    result = tfdist("run", "--dry-run", script(tmp_path, ""), *args, folder=tmp_path)
    assert json.loads(result.out)["args"] == args


@pytest.mark.parametrize("preset", PRESETS, ids=lambda path: path.stem)
def test_the_projects_own_presets(tmp_path: Path, preset: Path) -> None:
    tasks = [worker["task"] for worker in plan(tmp_path, "--config", preset)["workers"]]  # type: ignore[attr-defined]
    expected = {
        "chief_worker": ["chief:0", "worker:0"],
        "chief_worker_evaluator": ["chief:0", "worker:0", "evaluator:0"],
    }
    assert tasks == expected.get(preset.stem, ["worker:0", "worker:1"])


def test_the_version_and_the_help(tmp_path: Path) -> None:
    assert tfdist("--version", folder=tmp_path).out.startswith("tfdist 0.")
    shown = tfdist("run", "--help", folder=tmp_path)
    assert shown.code == 0
    assert "--start-timeout SECONDS" in shown.out
