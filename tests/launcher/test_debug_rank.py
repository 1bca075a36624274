"""``tfdist run --debug-rank``: one worker has the terminal, and nothing hurries it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from signal import SIGINT, SIGTERM

import pytest

from tests.commands import TFDIST, Command, script, tfdist
from tests.launcher.histories import History
from tests.launcher.terminals import Terminal
from tests.launcher.test_run import SERVE
from tfdist_kit.launcher.messages import Exited, Listening, Said, Signalled, Tick
from tfdist_kit.launcher.request import Deadlines
from tfdist_kit.launcher.state import State

GIVEN_BACK = "terminal given back: True True\nexit code: "
STOPS = """\
import os
rank = os.environ["TFDIST_RANK"]
print("before", rank)
if rank == "1":
    here = 20
    breakpoint()
    print("after", here + 1)
"""


def test_pdb_works_on_one_rank_and_the_others_are_only_logged(tmp_path: Path) -> None:
    name = script(tmp_path, STOPS)
    with Terminal(["run", "--debug-rank", "1", "--log-dir", "logs", name], tmp_path) as terminal:
        terminal.shows(r"tfdist: rank 1 \(worker:1\) has the terminal: its output is not logged")
        terminal.shows(r"\nbefore 1\n(?s:.)*\(Pdb\) ")
        assert "before 0" not in terminal.shown
        terminal.types("p here + 11\n")
        terminal.shows(r"\n31\n\(Pdb\) ")
        terminal.types("here = 40\n")
        terminal.shows(r"\(Pdb\) ")
        terminal.types("c\n")
        terminal.shows(r"\nafter 41\n")
        terminal.shows("tfdist: done: 2 workers")
        terminal.shows(f"{GIVEN_BACK}0\n")
    ranks = tmp_path / "logs/attempt_0"
    assert (ranks / "rank_0/stdout.log").read_text() == "before 0\n"
    assert not (ranks / "rank_1/stdout.log").exists()


def test_ctrl_c_goes_to_the_debugger_and_other_keys_to_nobody(tmp_path: Path) -> None:
    name = script(tmp_path, STOPS)
    with Terminal(["run", "--debug-rank", "1", name], tmp_path) as terminal:
        terminal.shows(r"\(Pdb\) ")
        terminal.types("\x1a\x1cp rank\n")
        terminal.shows(r"\n'1'\n\(Pdb\) ")
        terminal.shows(r"--KeyboardInterrupt--\n\(Pdb\) ", press="\x03")
        terminal.types("c\n")
        terminal.shows(f"after 21\n(?s:.)*{GIVEN_BACK}0\n")


def test_a_line_can_be_edited(tmp_path: Path) -> None:
    pytest.importorskip("readline")
    name = script(tmp_path, STOPS)
    with Terminal(["run", "-n", "2", "--debug-rank", "1", name], tmp_path) as terminal:
        terminal.shows(r"\(Pdb\) ")
        terminal.types("p 1 + 222\x02\x02\b7\n")  # two characters to the left, one away
        terminal.shows(r"\n723\n")


@pytest.mark.parametrize("ending", ["quit", "Ctrl-C", "SIGKILL"])
def test_the_terminal_is_given_back_however_the_worker_ends(tmp_path: Path, ending: str) -> None:
    name = script(
        tmp_path,
        "import os, signal, subprocess, time, tty\n"
        "if os.environ['TFDIST_RANK'] == '0':\n"
        "    while not os.path.exists('go'): time.sleep(0.01)\n"
        "    raise SystemExit\n"
        "subprocess.run(['stty', '-echo'])\n"
        "print('here', os.getpid())\n"
        + {
            "quit": "breakpoint()\npass",
            "Ctrl-C": "time.sleep(60)",
            "SIGKILL": "os.kill(os.getpid(), signal.SIGKILL)",
        }[ending],
    )
    with Terminal(["run", "--debug-rank", "1", name], tmp_path) as terminal:
        terminal.shows(r"\nhere \d+\n")
        if ending == "quit":
            terminal.shows(r"\(Pdb\) ")
            terminal.types("q\n")
        elif ending == "Ctrl-C":
            terminal.types("\x03")
        terminal.shows(r"rank 1 \(worker:1\) failed")
        (tmp_path / "go").touch()
        code = {"quit": 1, "Ctrl-C": 130, "SIGKILL": 137}[ending]
        terminal.shows(f"{GIVEN_BACK}{code}\n")


def test_when_the_worker_has_ended_ctrl_c_goes_to_the_launcher_again(tmp_path: Path) -> None:
    name = script(
        tmp_path,
        "import os, time\n"
        "if os.environ['TFDIST_RANK'] == '0': open('up', 'w').close(); time.sleep(60)\n"
        "while not os.path.exists('up'): time.sleep(0.01)\n"
        "print('over')",
    )
    with Terminal(["run", "--debug-rank", "1", "--log-dir", "logs", name], tmp_path) as terminal:
        terminal.shows(r"\nover\n")
        events = tmp_path / "logs/events.jsonl"
        while '"exited"' not in events.read_text():
            time.sleep(0.01)
        terminal.types("\x03")
        terminal.shows("tfdist: SIGINT: passing it on to the workers")
        terminal.shows(f"{GIVEN_BACK}130\n")


def test_without_a_terminal_the_worker_has_the_launchers_input_and_output(tmp_path: Path) -> None:
    name = script(tmp_path, STOPS.replace("breakpoint()", "here = int(input())"))
    done = subprocess.run(
        [*TFDIST, "run", "--debug-rank", "1", name],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        input="41\n",
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "before 1\nafter 42\n"


def test_a_debugged_worker_dies_with_the_launcher(tmp_path: Path) -> None:
    name = script(
        tmp_path,
        "import os, subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "open('up-' + os.environ['TFDIST_RANK'], 'w').close(); time.sleep(60)",
    )
    with Command(["run", "--debug-rank", "0", name], tmp_path) as command:
        command.wait_for(tmp_path / "up-*", 2)
        command.wait_for_processes(5)
        command.process.kill()
        command.process.wait()
        command.assert_nothing_lives()


def test_sigterm_to_the_launcher_ends_a_debugged_worker(tmp_path: Path) -> None:
    name = script(
        tmp_path,
        "import os, time\nopen('up-' + os.environ['TFDIST_RANK'], 'w').close()\ntime.sleep(60)",
    )
    with Command(["run", "--debug-rank", "0", name], tmp_path) as command:
        command.wait_for(tmp_path / "up-*", 2)
        command.process.send_signal(SIGTERM)
        assert command.result().code == 143
        command.assert_nothing_lives()


def test_the_start_deadline_does_not_count(tmp_path: Path) -> None:
    body = SERVE + "if os.environ['TFDIST_RANK'] == '1': time.sleep(1)\nserver.listen()\n"
    name = script(tmp_path, f"import time\n{body}time.sleep(0.5)")
    limits = ["--start-timeout", "0.3", "--timeout", "0.5"]
    assert tfdist("run", "--debug-rank", "1", *limits, name, folder=tmp_path).code == 0
    assert tfdist("run", *limits, name, folder=tmp_path).code == 124


@pytest.mark.parametrize(
    ("options", "shown"), [([], False), (["--tee"], True), (["--no-tee"], False)]
)
def test_the_plan(tmp_path: Path, options: list[str], shown: bool) -> None:
    name = script(tmp_path, "")
    limits = ["--timeout", "1", "--start-timeout", "1", "--stall-timeout", "1"]
    result = tfdist(
        "run", "--dry-run", "--debug-rank", "1", *options, *limits, name, folder=tmp_path
    )
    made = json.loads(result.out)
    assert [worker["foreground"] for worker in made["workers"]] == [False, True]
    assert made["console"]["tee"] is shown
    assert [made["deadlines"][name] for name in ("total", "start", "stall")] == [None] * 3
    assert "rank 1 (worker:1) has the terminal" in made["notices"][0]


@pytest.mark.parametrize("rank", ["2", "-1"])
def test_a_rank_that_is_not_there(tmp_path: Path, rank: str) -> None:
    result = tfdist("run", "--debug-rank", rank, script(tmp_path, ""), folder=tmp_path)
    assert result.code == 2
    assert f"rank {rank} is to be debugged, but the ranks are 0 to 1" in result.err


# The supervisor


def debugged(rank: int, tasks: tuple[str, ...] = ("worker:0", "worker:1")) -> History:
    return History(tasks, Deadlines(start=None, drain=5, grace=3, evaluator=7), debugged=rank)


def test_a_failed_peer_is_only_told_of_until_the_debugged_worker_ends() -> None:
    history = debugged(0, ("worker:0", "worker:1", "worker:2")).all_join(1).fails(10, 1)
    assert "nothing is ended while a worker is being debugged" in str(history.actions)
    history.at(1000, Tick())
    assert history.kills() == []
    history.at(2000, Exited(0, 0)).at(2020)
    assert [(at, rank) for at, rank, _ in history.kills()] == [(2005, 2), (2008, 2)]
    assert history.outcome().root == 1


def test_a_failure_of_the_debugged_worker_itself_is_like_any_other() -> None:
    history = debugged(0).all_join(1)
    history.at(10, Said(0, "failed")).at(30)
    assert history.kills() == []  # its post-mortem may take its time
    history.at(40, Exited(0, 1)).at(60)
    assert history.kills() == [(45, 1, SIGTERM), (48, 1, 9)]


def test_who_leaves_early_is_waited_for_until_the_debugged_worker_ends() -> None:
    history = debugged(0).at(1, Listening(0)).at(2, Said(1, "finished_without_joining"))
    history.at(3, Exited(1, 0)).at(100)
    assert history.kills() == []
    assert history.at(200, Exited(0, 0)).supervisor.state is State.OVER


def test_a_debugged_evaluator_has_all_the_time_it_wants() -> None:
    history = debugged(2, ("chief:0", "worker:0", "evaluator:0")).all_join(1)
    history.at(5, Exited(0, 0), Exited(1, 0)).at(1000)
    assert history.kills() == []


def test_a_signal_still_ends_everything() -> None:
    history = debugged(0).all_join(1).at(5, Signalled(SIGINT)).at(20)
    assert history.kills() == [(5, 0, SIGTERM), (5, 1, SIGTERM), (8, 0, 9), (8, 1, 9)]
