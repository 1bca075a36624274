"""``tfdist stacks``: a live run is asked from outside, and nobody else is ever signalled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import Command, Result, script, tfdist
from tests.launcher.test_the_end import GIL_HOLDER
from tfdist_kit.launcher import temp

WAIT = (
    "import os, time\n"
    "open('up-' + os.environ['TFDIST_RANK'], 'w').close()\n"
    "while not os.path.exists('go'): time.sleep(0.01)\n"
)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Command]:
    with Command(["run", "--log-dir", "logs", script(tmp_path, WAIT)], tmp_path) as command:
        command.wait_for(tmp_path / "up-*", 2)
        yield command


def test_a_live_run_tells_and_goes_on(tmp_path: Path, run: Command) -> None:
    for _ in range(2):
        result = tfdist("stacks", "logs", folder=tmp_path)
        assert result.code == 0, result.out + result.err
        first, second = result.out.splitlines()[:2]
        assert first.startswith("rank 0 (worker:0) is ")
        assert "train.py:3: while not os.path" in second
        assert "--- rank 1 (worker:1)\nCurrent thread 0x" in result.out
    (tmp_path / "go").touch()
    assert run.result().code == 0
    kept = (tmp_path / "logs/attempt_0/rank_0/stacks.txt").read_text()
    assert kept.count("tfdist stacks") == 2


def test_before_a_worker_was_started(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    plan = {"run_dir": "logs", "workers": [{"task": "worker:0"}]}
    (tmp_path / "logs/plan.json").write_text(json.dumps(plan))
    lock = temp.lock(tmp_path / "logs")
    assert lock is not None
    result = tfdist("stacks", "logs", folder=tmp_path)
    os.close(lock)
    assert result == Result(0, "no worker has been started yet\n", "")


def test_as_json(tmp_path: Path, run: Command) -> None:
    data = json.loads(tfdist("stacks", "--json", "logs", folder=tmp_path).out)
    assert len(data["explanation"]) >= 2
    first, second = data["ranks"]
    assert (first["rank"], second["name"]) == (0, "rank 1 (worker:1)")
    assert first["trouble"] == ""
    [thread] = first["threads"]
    assert any(frame["file"].endswith("train.py") for frame in thread["frames"])


def test_a_program_that_works_is_asked_in_the_way_that_disturbs_nothing(tmp_path: Path) -> None:
    """C code that reads the stacks of running threads has crashed one in a hundred times."""
    busy = (
        "import threading, time\n"
        "def work():\n"
        "    while True: sum(range(100))\n"
        "for _ in range(3): threading.Thread(target=work, daemon=True).start()\n"
    )
    name = script(tmp_path, busy + WAIT)
    with Command(["run", "-n", "1", "--log-dir", "logs", name], tmp_path) as command:
        command.wait_for(tmp_path / "up-0")
        data = json.loads(tfdist("stacks", "--json", "logs", folder=tmp_path).out)
        (tmp_path / "go").touch()
        assert command.result().code == 0
    [rank] = data["ranks"]
    assert [thread["frames"][0]["function"] for thread in rank["threads"]][-1] == "tell"
    assert len(rank["threads"]) == 4
    assert rank["where"].startswith("is busy at train.py:7: while not")


def test_a_worker_that_is_stuck_in_native_code_tells_and_goes_on(tmp_path: Path) -> None:
    name = script(tmp_path, f"open('up-0', 'w').close()\n{GIL_HOLDER}\n")
    with Command(["run", "-n", "1", "--log-dir", "logs", name], tmp_path) as command:
        command.wait_for(tmp_path / "up-0")
        for _ in range(2):
            result = tfdist("stacks", "logs", folder=tmp_path)
            assert result.code == 0
            assert "in match, called from train.py:2: import re;" in result.out
        assert command.process.poll() is None


def test_a_run_that_is_over(tmp_path: Path) -> None:
    assert tfdist("run", "--log-dir", "logs", script(tmp_path, ""), folder=tmp_path).code == 0
    result = tfdist("stacks", "logs", folder=tmp_path)
    assert result.code == 2
    assert "the run in logs is over" in result.err


@pytest.mark.parametrize("name", [".", "absent", "train.py"])
def test_what_is_no_run_folder(tmp_path: Path, name: str) -> None:
    script(tmp_path, "")
    result = tfdist("stacks", name, folder=tmp_path)
    assert result.code == 2
    assert f"{name} is not the folder of a run" in result.err


@pytest.mark.parametrize("change", ["pid", "start_time"])
def test_a_stranger_is_never_signalled(tmp_path: Path, run: Command, change: str) -> None:
    """A status file may be old, and its number may belong to another process by now."""
    stranger = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    path = tmp_path / "logs/attempt_0/rank_0/status.json"
    status = json.loads(path.read_text())
    changed = {"pid": stranger.pid, "start_time": status["start_time"] + 1}
    path.write_text(json.dumps({**status, change: changed[change]}))
    result = tfdist("stacks", "logs", folder=tmp_path)
    assert result.code == 1
    assert "rank 0 (worker:0) did not tell: its process has ended" in result.out
    stranger.communicate(b"\n", timeout=30)
    assert stranger.returncode == 0


def test_a_worker_that_is_stopped(tmp_path: Path, run: Command) -> None:
    status = json.loads((tmp_path / "logs/attempt_0/rank_1/status.json").read_text())
    os.kill(status["pid"], signal.SIGSTOP)
    result = tfdist("stacks", "logs", folder=tmp_path)
    assert result.code == 1
    assert "rank 1 (worker:1) did not tell: its process is stopped" in result.out
    assert "rank 0 (worker:0) is " in result.out
