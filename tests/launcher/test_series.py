"""``tfdist run --max-restarts`` with real processes, seen from outside; no TensorFlow is needed."""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.commands import Command, script, tfdist

START = """\
import json, os, signal, sys, time
attempt, rank = int(os.environ["TFDIST_ATTEMPT"]), int(os.environ["TFDIST_RANK"])
"""
FAST = ("--restart-delay", "0.05", "--log-dir", "logs")


def events(folder: Path) -> list[dict[str, Any]]:
    text = (folder / "logs" / "events.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def verdicts(folder: Path) -> list[tuple[int, str]]:
    told = [event for event in events(folder) if event["event"] == "verdict"]
    return [(event["attempt"], event["verdict"]) for event in told]


def test_a_script_that_crashes_twice_and_then_succeeds(tmp_path: Path) -> None:
    body = "if attempt < 2 and rank == 1: raise ValueError('bad row 17')\nprint('well done')"
    result = tfdist(
        "run", *FAST, "--max-restarts", "2", script(tmp_path, START + body), folder=tmp_path
    )
    assert result.code == 0, result.err
    assert result.out.count("[rank 1] well done") == 1
    happened = r"rank 1 \(worker:1\) raised ValueError: bad row 17 at train.py:3"
    while_running = [
        rf"attempt 0: crash after [\d.]+ s: {happened}; attempt 1 starts in 0.05 s \(1 of 2",
        rf"attempt 1: crash after [\d.]+ s: {happened}; attempt 2 starts in 0.1 s \(2 of 2",
    ]
    at_the_end = [
        rf"attempt 0: crash after [\d.]+ s: {happened}; restarted after 0.05 s",
        rf"attempt 1: crash after [\d.]+ s: {happened}; restarted after 0.1 s",
        r"done: 2 workers in [\d.]+ s with 2 restarts; logs in ",
    ]
    for line in (*while_running, *at_the_end):
        assert re.search(f"^tfdist: {line}", result.err, re.MULTILINE), (line, result.err)


def test_the_last_attempt_is_told_in_full_and_gives_the_exit_code(tmp_path: Path) -> None:
    body = "if rank == 1: sys.exit(3 + attempt)\nprint('waiting', flush=True); time.sleep(60)"
    name = script(tmp_path, START + body)
    result = tfdist("run", *FAST, "--max-restarts", "1", name, folder=tmp_path)
    assert result.code == 4
    end = result.err[result.err.index("tfdist: FAILED") :]
    assert re.match(r"tfdist: FAILED with exit code 4 after [\d.]+ s with 1 restart: rank 1", end)
    assert "called sys.exit(4)" in end
    assert "tfdist: not restarted: 1 of 1 restart used up\n" in end
    assert len(re.findall(r"called sys.exit\(3\)", result.err)) == 2


def test_each_attempt_has_its_own_folder_ports_and_plan(tmp_path: Path) -> None:
    body = "print(os.environ['TF_CONFIG'])\nsys.exit(attempt < 2)"
    name = script(tmp_path, START + body)
    result = tfdist("run", "-n", "1", *FAST, "--max-restarts", "2", name, folder=tmp_path)
    assert result.code == 0, result.err
    logs = tmp_path / "logs"
    seen = []
    for attempt in range(3):
        folder = logs / f"attempt_{attempt}"
        plan = json.loads((folder / "plan.json").read_text())
        [worker] = plan["workers"]
        assert (plan["attempt"], worker["folder"]) == (attempt, str(folder / "rank_0"))
        assert json.loads((folder / "rank_0" / "stdout.log").read_text()) == json.loads(
            worker["env"]["TF_CONFIG"]
        )
        status = json.loads((folder / "rank_0" / "status.json").read_text())
        assert (status["attempt"], status["state"]) == (attempt, "exited")
        seen.append(worker["port"])
    assert seen[0] != seen[1] != seen[2]
    assert (logs / "plan.json").read_text() == (logs / "attempt_2" / "plan.json").read_text()


def test_every_change_of_state_is_recorded_with_its_attempt(tmp_path: Path) -> None:
    name = script(tmp_path, START + "sys.exit(attempt < 1)")
    assert tfdist("run", "-n", "1", *FAST, "--max-restarts", "1", name, folder=tmp_path).code == 0
    one = ["started", "running", "failed", "exited", "verdict"]
    two = ["started", "running", "finished_without_joining", "exited", "verdict", "over"]
    assert [(event["attempt"], event["event"]) for event in events(tmp_path)] == [
        *((0, kind) for kind in (*one, "back_off", "restart")),
        *((1, kind) for kind in two),
    ]
    assert verdicts(tmp_path) == [(0, "crash"), (1, "done")]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "lost worker"),
        ("os.kill(os.getpid(), signal.SIGTERM)", "preempted"),
        ("sys.exit(42)", "preempted"),
        ("os._exit(42)", "preempted"),
    ],
)
def test_an_interruption_is_not_counted(tmp_path: Path, body: str, expected: str) -> None:
    """The peer is ended by us, and the budget of one restart is still whole afterwards."""
    name = script(
        tmp_path,
        f"{START}if attempt == 0:\n    if rank == 0: time.sleep(60)\n    {body}\n"
        "elif attempt == 1: sys.exit(rank)",
    )
    result = tfdist("run", *FAST, "--max-restarts", "1", name, folder=tmp_path)
    assert result.code == 0, result.err
    assert verdicts(tmp_path) == [(0, expected), (1, "crash"), (2, "done")]
    assert "(not counted as a crash)" in result.err


def test_a_worker_that_is_killed_again_and_again_ends_the_run(tmp_path: Path) -> None:
    name = script(tmp_path, START + "os.kill(os.getpid(), signal.SIGKILL)")
    args = ["--restart-delay", "0", "--log-dir", "logs", "--max-restarts", "1"]
    result = tfdist("run", "-n", "1", *args, name, folder=tmp_path)
    assert result.code == 137
    assert verdicts(tmp_path) == [(attempt, "lost worker") for attempt in range(5)]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("x =", 1),
        ("import nonsense_module", 1),
        ("import argparse; argparse.ArgumentParser().parse_args(['--no-such-option'])", 2),
    ],
)
def test_an_error_of_the_script_itself_is_told_at_once(
    tmp_path: Path, body: str, code: int
) -> None:
    name = script(tmp_path, body)
    result = tfdist("run", *FAST, "--max-restarts", "5", name, folder=tmp_path)
    assert result.code == code
    assert verdicts(tmp_path) == [(0, "fatal")]
    assert "tfdist: not restarted: it would fail in the same way again" in result.err


def test_steps_that_are_reported_make_the_budget_whole(tmp_path: Path) -> None:
    body = "import tfdist_kit; tfdist_kit.report_progress(attempt + 1)\nsys.exit(attempt < 3)"
    args = ["--restart-delay", "0", "--log-dir", "logs", "--max-restarts", "1"]
    args += ["--start-method", "fresh"]  # nothing of TensorFlow is needed
    result = tfdist("run", "-n", "1", *args, script(tmp_path, START + body), folder=tmp_path)
    assert result.code == 0, result.err
    told = [event for event in events(tmp_path) if event["event"] == "verdict"]
    assert [event["step"] for event in told] == [1, 2, 3, 4]


def test_without_the_option_nothing_is_started_again(tmp_path: Path) -> None:
    name = script(tmp_path, START + "sys.exit(42)")
    result = tfdist("run", "--log-dir", "logs", name, folder=tmp_path)
    assert result.code == 42
    assert verdicts(tmp_path) == [(0, "preempted")]
    assert "restart" not in result.err


@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_between_two_attempts(tmp_path: Path, signum: int, code: int) -> None:
    name = script(tmp_path, START + "sys.exit(5)")
    args = ["run", "--restart-delay", "60", "--log-dir", "logs", "--max-restarts", "1", name]
    with Command(args, tmp_path) as command:
        log = tmp_path / "logs" / "events.jsonl"
        command.wait_for(log)
        while "back_off" not in log.read_text():
            assert command.process.poll() is None
            time.sleep(0.01)
        command.process.send_signal(signum)
        begin = time.monotonic()
        result = command.result()
        assert time.monotonic() - begin < 5  # of 60
    assert result.code == code
    assert result.err.count("tfdist: attempt 0: crash after") == 2  # at once, and at the end
    assert f"FAILED with exit code {code} after" in result.err
    assert f"tfdist received {signal.Signals(signum).name}" in result.err
    assert [event["event"] for event in events(tmp_path)][-2:] == ["received", "over"]


def test_the_time_limit_holds_between_two_attempts(tmp_path: Path) -> None:
    name = script(tmp_path, START + "print('last words'); sys.exit(5)")
    args = ["--restart-delay", "60", "--max-restarts", "1", "--timeout", "1"]
    result = tfdist("run", *args, name, folder=tmp_path)
    assert result.code == 124
    assert re.search(r"FAILED with exit code 124 after 1\.\d s: the time limit of 1 s", result.err)
    assert "tfdist: last words" in result.err


def test_the_time_limit_is_for_all_attempts_together(tmp_path: Path) -> None:
    name = script(tmp_path, START + "time.sleep(60 if attempt else 1.2); sys.exit(5)")
    args = ["--restart-delay", "0", "--max-restarts", "1", "--timeout", "2", "--log-dir", "logs"]
    result = tfdist("run", "-n", "1", *args, name, folder=tmp_path)
    assert result.code == 124
    assert re.search(r"FAILED with exit code 124 after 2\.\d s with 1 restart", result.err)
    assert verdicts(tmp_path) == [(0, "crash"), (1, "ended")]


def test_an_attempt_that_cannot_be_started_does_not_hide_the_one_before(tmp_path: Path) -> None:
    name = script(tmp_path, START + "os.mkdir('logs/attempt_1'); raise ValueError('the first')")
    result = tfdist("run", "-n", "1", *FAST, "--max-restarts", "1", name, folder=tmp_path)
    assert result.code == 1
    assert "FAILED with exit code 1" in result.err
    assert "raised ValueError: the first" in result.err
    assert re.search("not restarted: .*attempt_1", result.err)


def test_all_attempts_of_an_earlier_run_are_set_aside(tmp_path: Path) -> None:
    name = script(tmp_path, START + "sys.exit(attempt < 1)")
    args = ["run", "-n", "1", *FAST, "--max-restarts", "1", name]
    for _ in range(2):
        assert tfdist(*args, folder=tmp_path).code == 0
    logs = tmp_path / "logs"
    both = {"attempt_0", "attempt_1", "events.jsonl", "plan.json"}
    assert {path.name for path in (logs / "earlier_1").iterdir()} == both
    assert {path.name for path in logs.iterdir()} == {*both, "earlier_1"}
