"""Runs that hang, with real processes: they are found, told where they are, and ended."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest

from tests.commands import Command, script, tfdist
from tests.launcher.test_the_end import GIL_HOLDER

RANK = "import os, signal, sys, time\nrank = os.environ['TFDIST_RANK']\n"
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3"}
BARE = ("--start-method", "fresh")
"""For scripts that import the kit, and nothing of TensorFlow."""


def explained(err: str) -> list[str]:
    """The lines that say where the workers were."""
    lines = [line.removeprefix("tfdist: ") for line in err.splitlines()]
    begin = next(i for i, line in enumerate(lines) if line.startswith("--- where"))
    return [line for line in lines[begin + 1 :] if re.match(r"(all|the|rank|ranks) ", line)]


def test_a_stall_is_explained_and_ended(tmp_path: Path) -> None:
    body = f"if rank == '1':\n    {GIL_HOLDER}\ntime.sleep(60)\n"
    name = script(tmp_path, RANK + body)
    args = ["--stall-timeout", "1", "--log-dir", "logs", name]
    begin = time.monotonic()
    result = tfdist("run", *args, folder=tmp_path)
    assert time.monotonic() - begin < 20
    assert result.code == 124
    assert "for 1 s (--stall-timeout)" in result.err
    asleep, busy, together = explained(result.err)
    assert asleep == "rank 0 (worker:0) is at train.py:5: time.sleep(60)"
    assert busy.startswith("rank 1 (worker:1) is busy in match, called from train.py:4: import re;")
    assert together == "the ranks are at different places"
    for rank in (0, 1):
        kept = (tmp_path / f"logs/attempt_0/rank_{rank}/stacks.txt").read_text()
        assert "no sign of life from" in kept
        assert "train.py" in kept
    events = (tmp_path / "logs/events.jsonl").read_text()
    assert json.loads(events.splitlines()[-1])["exit_code"] == 124


def test_output_and_progress_are_signs_of_life(tmp_path: Path) -> None:
    body = (
        "import tfdist_kit\n"
        "for n in range(50):\n"
        "    if rank == '0': print(n, flush=True)\n"
        "    else: tfdist_kit.report_progress(n)\n"
        "    time.sleep(0.05)\n"
    )
    name = script(tmp_path, RANK + body)
    args = ["--stall-timeout", "1.2", "--log-dir", "logs", name]
    result = tfdist("run", *BARE, *args, folder=tmp_path)
    assert result.code == 0, result.err
    status = [
        json.loads((tmp_path / f"logs/attempt_0/rank_{rank}/status.json").read_text())
        for rank in (0, 1)
    ]
    assert "step" not in status[0]
    assert status[1]["step"] == 49
    assert not list((tmp_path / "logs").rglob("stacks.txt"))


def test_the_newest_step_is_told_even_if_the_next_one_hangs(tmp_path: Path) -> None:
    body = (
        "import tfdist_kit\nfor n in range(1000): tfdist_kit.report_progress(n)\ntime.sleep(60)\n"
    )
    args = ["-n", "1", "--stall-timeout", "1", "--log-dir", "logs", script(tmp_path, RANK + body)]
    assert tfdist("run", *BARE, *args, folder=tmp_path).code == 124
    status = json.loads((tmp_path / "logs/attempt_0/rank_0/status.json").read_text())
    assert status["step"] == 999


def test_progress_is_seldom_written(tmp_path: Path) -> None:
    body = (
        "import tfdist_kit\n"
        "from tfdist_kit.launcher.inside import report\n"
        "said, say = [], report.say\n"
        "report.say = lambda *words: (said.append(words), say(*words))\n"
        "begin = time.monotonic()\n"
        "while time.monotonic() < begin + 1: tfdist_kit.report_progress()\n"
        "assert 2 < len(said) <= 6, said\n"
    )
    result = tfdist("run", *BARE, "-n", "1", script(tmp_path, RANK + body), folder=tmp_path)
    assert result.code == 0, result.err


def test_workers_that_cannot_tell(tmp_path: Path) -> None:
    bodies = [
        "time.sleep(60)",
        "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals()); time.sleep(60)",
        "os.kill(os.getpid(), signal.SIGSTOP)",
        "sys.exit()",
        "take(signal.SIG_IGN); time.sleep(60)",
        "take(signal.SIG_DFL); time.sleep(60)",
        "take(lambda *_: None); time.sleep(60)",
    ]
    choice = "".join(f"if rank == '{rank}': {body}\n" for rank, body in enumerate(bodies))
    take = "def take(handler): [signal.signal(signal.SIGRTMIN + n, handler) for n in (7, 8, 9)]\n"
    args = ["-n", str(len(bodies)), "--timeout", "1.5", "--grace", "0.3"]
    result = tfdist("run", *args, script(tmp_path, RANK + take + choice), folder=tmp_path)
    assert result.code == 124
    told = [line.partition(") ")[2] for line in explained(result.err)]
    deaf = "did not tell: it has not begun, or no longer heeds the signal that asks for its stacks"
    assert told[1:] == [
        "did not tell: it blocks the signal that asks for its stacks",
        "did not tell: its process is stopped (SIGSTOP, or a debugger)",
        "did not tell: its process has ended",
        deaf,
        deaf,
        "did not tell: it has not answered in time",
    ]
    assert told[0].startswith("is at train.py:4:")


def test_sigquit_asks_and_the_run_goes_on(tmp_path: Path) -> None:
    body = "open(f'up-{rank}', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.01)\n"
    with Command(["run", script(tmp_path, RANK + body)], tmp_path) as command:
        command.wait_for(tmp_path / "up-*", 2)
        command.process.send_signal(signal.SIGQUIT)
        assert command.process.stderr is not None
        lines = [command.process.stderr.readline() for _ in range(3)]
        (tmp_path / "go").touch()
        result = command.result()
        command.assert_nothing_lives()
    assert result.code == 0, result.err
    place = "is (busy )?(at|in .*, called from) train.py:4: while not"
    assert re.match(rf"tfdist: rank 0 \(worker:0\) {place}", lines[0])
    assert re.match(rf"tfdist: rank 1 \(worker:1\) {place}", lines[1])
    assert lines[2].startswith("tfdist: ")


def test_a_worker_that_does_not_join_is_told_where_it_is(tmp_path: Path) -> None:
    from tests.launcher.test_run import SERVE

    body = f"{RANK}if rank == '1': time.sleep(60)\n{SERVE}server.listen()\ntime.sleep(60)\n"
    args = ["--start-timeout", "1", "--stall-timeout", "0.5", script(tmp_path, body)]
    result = tfdist("run", *args, folder=tmp_path)
    assert result.code == 124
    assert "rank 1 (worker:1) did not join the cluster within 1 s" in result.err
    assert explained(result.err)[1].startswith("rank 1 (worker:1) is at train.py:3: if rank")


@pytest.mark.parametrize("frozen", ["the launcher", "everything"])
def test_what_was_stopped_for_a_while_goes_on(tmp_path: Path, frozen: str) -> None:
    body = "while not os.path.exists('go'): print(rank); time.sleep(0.1)\n"
    name = script(tmp_path, RANK + "import time\nopen('up' + rank, 'w').close()\n" + body)
    with Command(["run", "--stall-timeout", "1.5", "--log-dir", "logs", name], tmp_path) as command:
        command.wait_for(tmp_path / "up*", 2)
        launcher = command.process.pid
        others = [pid for pid in command.living() if pid != launcher]
        stopped = [launcher, *(others if frozen == "everything" else [])]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(2.6)
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        time.sleep(0.5)
        (tmp_path / "go").touch()
        result = command.result()
    assert result.code == 0, result.err


def test_output_that_the_terminal_does_not_take_is_no_silence(tmp_path: Path) -> None:
    body = "while True: print('x' * 1000)\n"
    args = ["run", "-n", "1", "--stall-timeout", "0.5", "--timeout", "2", "--log-dir", "logs"]
    with Command([*args, script(tmp_path, RANK + body)], tmp_path) as command:
        assert command.process.wait(30) == 124
        kept = (tmp_path / "logs/attempt_0/rank_0/stacks.txt").read_text()
        assert "the time limit of 2 s" in kept
        assert "no sign of life" not in kept
        command.assert_nothing_lives()


def test_sigquit_between_two_attempts(tmp_path: Path) -> None:
    args = ["-n", "1", "--max-restarts", "1", "--restart-delay", "60", "--log-dir", "logs"]
    name = script(tmp_path, "raise SystemExit(3)")
    with Command(["run", *args, name], tmp_path) as command:
        events = tmp_path / "logs/events.jsonl"
        while not events.exists() or '"back_off"' not in events.read_text():
            assert command.process.poll() is None
            time.sleep(0.01)
        command.process.send_signal(signal.SIGQUIT)
        time.sleep(0.1)
        command.process.send_signal(signal.SIGINT)
        result = command.result()
    assert result.code == 130
    assert "tfdist: no worker runs: all wait for the next attempt to start\n" in result.err


LEAVES_EARLY = """\
import os, threading, time
import tfdist_kit
begun = threading.Event()

def live():
    while not begun.wait(0.1):
        tfdist_kit.report_progress()

threading.Thread(target=live, daemon=True).start()
import tensorflow as tf
strategy = tfdist_kit.multi_worker_mirrored()

@tf.function
def step(x):
    return strategy.reduce("SUM", strategy.run(lambda x: 2 * x, args=(x,)), axis=None)

def train(steps):
    for number in range(steps):
        total = step(tf.constant(1.0))
        begun.set()
        tfdist_kit.report_progress(number)

train(3 if os.environ["TFDIST_RANK"] == "0" else 5)
time.sleep(60)
"""


def test_a_rank_that_leaves_the_loop_early_is_told_from_the_one_that_waits(tmp_path: Path) -> None:
    args = ["--stall-timeout", "2", "--grace", "0.3", "--log-dir", "logs"]  # it swallows SIGTERM
    args += [script(tmp_path, LEAVES_EARLY)]
    result = tfdist("run", *args, folder=tmp_path, env=QUIET)
    assert result.code == 124, result.err
    assert explained(result.err) == [
        "rank 0 (worker:0) is at train.py:24: time.sleep(60)",
        "rank 1 (worker:1) waits in a tf.function, called from train.py:19: "
        "total = step(tf.constant(1.0))",
        "the ranks are at different places: rank 1 needs every rank to take part, "
        "and rank 0 is not there",
    ]
    steps = [
        json.loads((tmp_path / f"logs/attempt_0/rank_{rank}/status.json").read_text())["step"]
        for rank in (0, 1)
    ]
    assert steps == [2, 2]
