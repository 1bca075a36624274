"""The end of a run in words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.launcher.histories import History, failure
from tfdist_kit.launcher.failure import is_aftermath
from tfdist_kit.launcher.messages import Exited, Said
from tfdist_kit.launcher.plan import RunPlan
from tfdist_kit.launcher.request import ConsoleWish
from tfdist_kit.launcher.summary import headline, summarise, tail

IN_A_GRAPH = """Graph execution error:

Detected at node CollectiveReduceV2 defined at (most recent call last):
  File "train.py", line 14, in <module>

Collective ops is aborted by: Error reported from /job:worker/task:1: Socket closed
\t [[{{node CollectiveReduceV2}}]] [Op:__inference_step_32]"""


class UnavailableError(Exception):
    """Stands for TensorFlow's, which is known by its name."""


def told(history: History) -> str:
    plans, deadlines = history.supervisor.plans, history.supervisor.deadlines
    plan = RunPlan("python", "script", "a.py", (), Path("/run"), plans, deadlines, ConsoleWish())
    return summarise(plan, history.supervisor, history.failures, history.outcome())


def test_a_good_run_is_one_line() -> None:
    history = History().all_join(1).at(5, Exited(0, 0), Exited(1, 0))
    assert told(history) == "done: 2 workers in 5.0 s; logs in /run"


def test_peers_of_a_worker_that_left_early_are_told_who_left() -> None:
    history = History().all_join(1).at(3, Exited(1, 0)).fails(13, 0, aftermath=True)
    blame = "rank 1 (worker:1) ended with exit code 0 while rank 0 (worker:0) needed it still"
    assert f"FAILED with exit code 1 after 13.0 s: {blame}" in told(history)


def test_a_frozen_worker_is_suspected_when_nobody_left() -> None:
    history = History().all_join(1).fails(13, 0, aftermath=True).at(30, Exited(1, -9))
    text = (
        "The following tasks are unhealthy (stopped sending heartbeats):\n"
        "/job:worker/replica:0/task:1\nThe tasks have crashed."
    )
    history.failures[0] = replace(history.failures[0], message=text)
    assert "rank 1 (worker:1) stopped answering, frozen or starved" in told(history)


def test_an_evaluator_that_ended_is_not_to_blame() -> None:
    history = History(("worker:0", "worker:1", "evaluator:0")).all_join(1)
    history.at(3, Exited(2, 0)).fails(13, 0, aftermath=True).at(30, Exited(1, -9))
    assert "evaluator:0" not in told(history)


def test_a_frozen_leader_is_known_by_the_heartbeat_that_nobody_answered() -> None:
    history = History().all_join(1).fails(13, 1, aftermath=True).at(30, Exited(0, -9))
    text = "Collective ops is aborted by: Deadline Exceeded\n RPC: /tensorflow.CoordinationService/"
    history.failures[1] = replace(history.failures[1], message=f"{text}Heartbeat")
    assert "rank 0 (worker:0) stopped answering" in told(history)


def test_a_long_traceback_is_cut_in_the_middle() -> None:
    history = History().all_join(1).at(2, Said(1, "failed"), Exited(1, 1), Exited(0, 0))
    long = "\n".join(f"frame {number}" for number in range(200))
    history.failures[1] = replace(failure(2.0), traceback=long)
    shown = told(history).splitlines()
    assert "  ... 160 lines ..." in shown
    assert {"frame 0", "frame 199"} < set(shown)


def test_a_huge_message_is_cut() -> None:
    history = History().all_join(1).fails(5, 1).at(6, Exited(0, 0))
    huge = "x" * 1_000_000
    history.failures[1] = replace(history.failures[1], message=huge, traceback=huge)
    assert len(told(history)) < 2000


def test_an_independent_failure_is_not_called_a_consequence() -> None:
    history = History().all_join(1).fails(5, 1).fails(6, 0)
    assert "also: rank 0 (worker:0) raised ValueError" in told(history)


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("bad row 17", "bad row 17"),
        ("first\nsecond", "first"),
        ("", ""),
        (
            IN_A_GRAPH,
            "Collective ops is aborted by: Error reported from /job:worker/task:1: Socket closed",
        ),
        ("Graph execution error:", "Graph execution error:"),
    ],
)
def test_the_line_that_says_most(message: str, line: str) -> None:
    assert headline(message) == line


def raised_from(cause: BaseException) -> BaseException:
    try:
        raise RuntimeError("the step failed") from cause
    except RuntimeError as error:
        return error


@pytest.mark.parametrize(
    ("error", "aftermath"),
    [
        (UnavailableError(IN_A_GRAPH), True),
        (raised_from(UnavailableError("Connection reset by peer")), True),
        (UnavailableError("the bucket cannot be reached"), False),
        (ValueError("Socket closed"), False),
    ],
)
def test_an_aftermath_is_known_by_type_and_text(error: BaseException, aftermath: bool) -> None:
    assert is_aftermath(error) is aftermath


def test_the_last_lines_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\n10%\r20%\n\n\xff\nlast")
    assert tail(path, 3) == ["20%", "\ufffd", "last"]
    assert tail(path, 1) == ["last"]
    assert tail(tmp_path / "absent", 3) == []
