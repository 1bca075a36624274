"""Runs that are preempted as a whole: by SIGTERM to the launcher, or by a notice to it."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGKILL, SIGTERM, SIGUSR1, SIGUSR2

import pytest

from tests.commands import Command, script, tfdist
from tests.launcher.histories import TWO, History
from tests.launcher.test_summary import told
from tfdist_kit.launcher.messages import Exited, NotStarted, Said, Signalled
from tfdist_kit.launcher.outcome import cut_short
from tfdist_kit.launcher.restart import Verdict, judge
from tfdist_kit.launcher.state import Cause, State, Why

EVALUATED = ("worker:0", "worker:1", "evaluator:0")


def running(tasks: tuple[str, ...] = TWO) -> History:
    history = History(tasks).at(0, *(Said(rank, "running") for rank in range(len(tasks))))
    return history.at(1, *(Said(rank, "joined") for rank in (0, 1)))


def exit_code(history: History, *codes: int) -> int:
    history.at(9, *(Exited(rank, code) for rank, code in enumerate(codes)))
    assert history.supervisor.state is State.OVER
    return history.outcome().exit_code


def verdict(history: History) -> Verdict:
    return judge(history.supervisor.workers, history.failures, history.outcome())


@pytest.mark.parametrize(
    ("signum", "codes", "expected"),
    [
        (SIGTERM, (42, 42), 42),
        (SIGTERM, (42, 0), 42),
        (SIGTERM, (42, -15), 42),
        (SIGTERM, (-9, 42), 42),
        (SIGTERM, (1, 42), 42),  # without a record: in the wake, or because it was told to
        (SIGTERM, (0, 0), 0),
        (SIGTERM, (0, -15), 143),
        (SIGTERM, (-15, -15), 143),
        (SIGTERM, (143, 1), 143),
        (SIGINT, (42, 42), 130),
        (SIGINT, (0, 0), 130),
        (SIGHUP, (42, 0), 129),
    ],
)
def test_what_the_launcher_leaves_with(signum: int, codes: tuple[int, ...], expected: int) -> None:
    history = running().at(5, Signalled(signum))
    assert exit_code(history, *codes) == expected
    assert verdict(history) is (Verdict.ENDED if expected else Verdict.DONE)


def test_a_worker_that_fails_on_its_own_account_was_not_preempted() -> None:
    history = running().at(5, Signalled(SIGTERM)).fails(6, 0, 1).at(7, Exited(1, 42))
    assert history.outcome().exit_code == 143
    history = running().at(5, Signalled(SIGTERM)).fails(6, 0, aftermath=True).at(7, Exited(1, 42))
    assert history.outcome().exit_code == 42


def test_an_evaluator_need_not_save() -> None:
    assert exit_code(running(EVALUATED).at(5, Signalled(SIGTERM)), 42, 42, -15) == 42
    assert exit_code(running(EVALUATED).at(5, Signalled(SIGTERM)), -15, -15, 42) == 143


def test_a_preemption_that_the_launcher_hears_of_later_is_one() -> None:
    history = running().fails(4, 1, 42).at(5, Signalled(SIGTERM)).at(6, Exited(0, 42))
    assert history.outcome().exit_code == 42


def test_workers_that_have_finished_have_done_all_they_had_to() -> None:
    history = running().at(4, Said(0, "finished")).at(5, Signalled(SIGTERM), Said(1, "finished"))
    assert exit_code(history, -15, -9) == 0
    assert told(history) == "done: 2 workers in 9.0 s in spite of SIGTERM; logs in /run"


def test_workers_that_were_not_started_have_not_ended_well() -> None:
    history = History().at(1, Signalled(SIGTERM)).at(2, NotStarted(0), NotStarted(1))
    assert history.outcome().exit_code == 143


@pytest.mark.parametrize("signum", [SIGUSR1, SIGUSR2])
def test_a_notice_is_passed_on_and_ends_nothing(signum: int) -> None:
    history = running().at(5, Signalled(signum)).at(500, Signalled(signum)).at(1000)
    assert history.kills() == [(at, rank, signum) for at in (5, 500) for rank in (0, 1)]
    assert history.supervisor.state is State.RUNNING
    assert exit_code(history, 0, 0) == 0
    assert verdict(history) is Verdict.DONE


@pytest.mark.parametrize(
    ("codes", "expected", "judged"),
    [
        ((42, 42), 42, Verdict.PREEMPTED),
        ((42, 1), 42, Verdict.PREEMPTED),
        ((0, 42), 42, Verdict.PREEMPTED),
        ((-10, 42), 42, Verdict.PREEMPTED),
        ((-10, 138), 138, Verdict.PREEMPTED),  # a script that does not heed it dies of it
        ((-12, 0), 140, Verdict.CRASH),  # of another signal
        ((-11, 42), 139, Verdict.CRASH),
    ],
)
def test_what_becomes_of_a_notice(codes: tuple[int, ...], expected: int, judged: Verdict) -> None:
    history = running().at(5, Signalled(SIGUSR1))
    assert exit_code(history, *codes) == expected
    assert verdict(history) is judged


def test_a_notice_waits_for_the_scripts_to_begin_and_spares_who_has_finished() -> None:
    history = History().at(1, Said(0, "running"), Said(0, "finished"), Signalled(SIGUSR1))
    assert history.at(3, Said(1, "running")).kills() == [(3, 1, SIGUSR1)]
    assert exit_code(history, 0, -10) == 138  # rank 0 had work, and has done it


def test_a_notice_that_nobody_could_heed_yet_costs_nothing() -> None:
    history = History().at(1, Signalled(SIGUSR1)).at(2, Said(0, "running"), Said(1, "running"))
    assert exit_code(history, -10, -10) == 42
    history = History().at(1, Signalled(SIGUSR1)).at(2, Said(0, "running"), Exited(0, -10))
    history.at(2.1, Said(1, "running"))  # it is being ended already
    assert exit_code(history, -10, -15) == 42
    history = History().at(1, Signalled(SIGUSR1)).at(2, Said(0, "running"), Exited(0, -10))
    assert exit_code(history.at(3, NotStarted(1)), -10) == 42


def test_a_notice_counts_no_more_once_the_run_is_being_ended() -> None:
    history = running().at(5, Signalled(SIGTERM)).at(6, Signalled(SIGUSR1))
    assert [kill[2] for kill in history.kills()] == [SIGTERM, SIGTERM]
    assert (history.supervisor.state, history.supervisor.notice) == (State.TERMINATING, None)


def test_sigterm_after_a_notice_ends_the_run() -> None:
    history = running().at(5, Signalled(SIGUSR1)).at(6, Signalled(SIGTERM)).at(20)
    assert [kill[2] for kill in history.kills()] == [SIGUSR1] * 2 + [SIGTERM] * 2 + [SIGKILL] * 2


@pytest.mark.parametrize(
    ("signum", "was_interrupted", "expected"),
    [(SIGTERM, True, 42), (SIGUSR1, True, 42), (SIGINT, True, 130), (SIGTERM, False, 143)],
)
def test_between_two_attempts(signum: int, was_interrupted: bool, expected: int) -> None:
    outcome = running().fails(5, 0, 42).at(6, Exited(1, 42)).outcome()
    cause = Cause(Why.SIGNAL, signum=signum)
    assert cut_short(outcome, cause, was_interrupted=was_interrupted).exit_code == expected


def test_it_is_told_plainly() -> None:
    history = running().at(5, Signalled(SIGTERM), Said(0, "saving"), Said(0, "saved"))
    exit_code(history, 42, 42)
    assert told(history) == (
        "PREEMPTED with exit code 42 after 9.0 s: tfdist received SIGTERM; start the run again "
        "to go on\nsaved: rank 0 (worker:0)\nlogs in /run"
    )


# With real processes

SAVES = """\
import os, pathlib, signal, sys, time
from tfdist_kit.launcher.inside import report
attempt, rank = os.environ["TFDIST_ATTEMPT"], os.environ["TFDIST_RANK"]

def save(*_):
    if rank == "0":
        report.say("saving")
        while not os.path.exists("go"): time.sleep(0.01)
        report.say("saved")
    sys.exit(42)

signal.signal(signal.SIGTERM, save)
signal.signal(signal.SIGUSR1, save)
report.say("watching")
pathlib.Path(f"up-{rank}").touch()
"""
HURRIED = (
    *("--drain", "0.3", "--grace", "0.3", "--log-dir", "logs"),
    *("--start-method", "fresh"),  # nothing of TensorFlow is needed
)
RESTARTED = (*HURRIED, "--max-restarts", "1", "--restart-delay", "0")


def wait_for_states(command: Command, *states: str) -> None:
    folder = command.folder / "logs/attempt_0"
    while True:
        files = (folder / f"rank_{rank}/status.json" for rank in range(len(states)))
        if tuple(json.loads(file.read_text())["state"] for file in files) == states:
            return
        assert command.process.poll() is None
        time.sleep(0.01)


@pytest.mark.parametrize("signum", [SIGTERM, SIGUSR1])
def test_a_run_that_is_preempted_saves_and_is_not_restarted(tmp_path: Path, signum: int) -> None:
    args = ["run", *RESTARTED, script(tmp_path, SAVES + "time.sleep(60 * (attempt == '0'))")]
    with Command(args, tmp_path) as command:
        command.wait_for(tmp_path / "up-*", 2)
        wait_for_states(command, "watching", "watching")
        command.process.send_signal(signum)
        wait_for_states(command, "saving", "exited")
        time.sleep(1)  # longer than drain and grace together
        (tmp_path / "go").touch()
        result = command.result()
        command.assert_nothing_lives()
    assert result.code == 42, result.err
    name = signal.Signals(signum).name
    assert "PREEMPTED with exit code 42" in result.err
    assert f"tfdist received {name}; start the run again to go on" in result.err
    assert "saved: rank 0 (worker:0)\n" in result.err
    assert not (tmp_path / "logs/attempt_1").exists()


def test_a_preempted_worker_leaves_its_peer_the_time_to_save(tmp_path: Path) -> None:
    body = """\
if attempt == "0":
    if rank == "1":
        while not os.path.exists("begun"): time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)
    report.say("saving"); pathlib.Path("begun").touch(); time.sleep(1); report.say("saved")
    pathlib.Path("kept").touch()
    sys.exit(42)
"""
    result = tfdist("run", *RESTARTED, script(tmp_path, SAVES + body), folder=tmp_path)
    assert result.code == 0, result.err
    assert (tmp_path / "kept").exists()
    assert "attempt 0: preempted after" in result.err
    assert "(not counted as a crash)" in result.err
