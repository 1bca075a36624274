"""Runs that hang, as message histories: who counts as silent, and what is done about it."""

from __future__ import annotations

from signal import SIGINT, SIGKILL, SIGQUIT, SIGTERM

import pytest

from tests.launcher.histories import History
from tfdist_kit.launcher.messages import (
    Alive,
    Dump,
    Dumped,
    Exited,
    Explain,
    Listening,
    Message,
    Paused,
    Progress,
    Said,
    Signalled,
)
from tfdist_kit.launcher.request import Deadlines
from tfdist_kit.launcher.state import Cause, State, Why

STALL = Deadlines(stall=10, start=60, grace=5)
EVALUATED = ("worker:0", "worker:1", "evaluator:0")


def running(
    tasks: tuple[str, ...] = ("worker:0", "worker:1"), deadlines: Deadlines = STALL
) -> History:
    """All scripts have begun, at 0 s."""
    return History(tasks, deadlines).at(0, *(Said(rank, "running") for rank in range(len(tasks))))


def dumps(history: History) -> list[float]:
    return [now for now, action in history.actions if isinstance(action, Dump)]


def explanations(history: History) -> list[tuple[float, bool]]:
    return [(now, action.aloud) for now, action in history.actions if isinstance(action, Explain)]


def test_a_silent_run_is_asked_where_it_is_and_ended_then() -> None:
    history = running().all_join(1).at(11).at(11.5, Dumped()).at(20)
    assert dumps(history) == [11]
    assert explanations(history) == [(11.5, False)]
    assert history.kills() == [
        (11.5, 0, SIGTERM),
        (11.5, 1, SIGTERM),
        (16.5, 0, SIGKILL),
        (16.5, 1, SIGKILL),
    ]
    history.at(21, Exited(0, -SIGKILL), Exited(1, -SIGKILL))
    outcome = history.outcome()
    assert (outcome.exit_code, outcome.root) == (124, None)
    assert outcome.cause == Cause(Why.STALLED, (0, 1))


def test_stacks_that_do_not_come_are_not_waited_for_long() -> None:
    history = running().all_join(1).at(20)
    assert explanations(history) == [(13, False)]
    assert history.kills()[0] == (13, 0, SIGTERM)


@pytest.mark.parametrize(
    "sign", [Alive(0), Progress(0, 7), Progress(0, None), Said(0, "joined")], ids=repr
)
def test_one_rank_that_lives_does_not_hide_one_that_hangs(sign: Message) -> None:
    history = running().all_join(0)
    for now in range(1, 12):
        history.at(now, sign)
    assert history.supervisor.cause == Cause(Why.STALLED, (1,))


def test_signs_of_life_put_the_end_off() -> None:
    history = running().all_join(0)
    for now in range(0, 100, 5):
        history.at(now, Alive(0), Progress(1, now))
    assert dumps(history) == []
    assert dumps(history.at(120)) == [105]


def test_without_the_option_silence_is_no_fault() -> None:
    assert dumps(running(deadlines=Deadlines()).all_join(1).at(1e6)) == []


def test_a_worker_that_still_starts_is_not_silent() -> None:
    history = History(deadlines=STALL).at(0, Said(0, "running"))
    for now in range(0, 100, 5):
        history.at(now, Alive(0))
    assert dumps(history) == []


def test_a_script_that_joins_no_cluster_may_hang_too() -> None:
    history = running().at(20)
    assert history.supervisor.cause == Cause(Why.STALLED, (0, 1))


def test_while_workers_wait_for_one_to_join_the_start_deadline_is_theirs() -> None:
    history = running().at(1, Listening(0)).at(59, Listening(1))
    assert dumps(history) == []
    assert dumps(history.at(100)) == [69]


def test_without_a_start_deadline_they_may_wait_for_ever() -> None:
    history = running(deadlines=Deadlines(stall=10, start=None)).at(1, Listening(0)).at(1000)
    assert dumps(history) == []
    assert dumps(history.at(1000, Listening(1)).at(1020)) == [1010]


def test_while_a_worker_is_debugged_nobody_is_silent() -> None:
    history = History(deadlines=STALL, debugged=1).at(0, Said(0, "running"), Said(1, "running"))
    assert dumps(history.all_join(1).at(1000)) == []


def resumed(history: History, now: float, seconds: float, *messages: Message) -> History:
    """The launcher did not run up to `now`, and sees only then what has come."""
    for message in (Paused(seconds), *messages):
        history._handle(message, now)
    history.now = now
    return history.at(now)


def test_time_in_which_the_launcher_did_not_run_is_no_silence() -> None:
    history = resumed(running().all_join(0).at(4), 1004, 1000)
    assert dumps(history) == []
    assert dumps(history.at(2000)) == [1010]


def test_who_joined_while_the_launcher_did_not_run_joined_in_time() -> None:
    history = resumed(running().at(1, Listening(0)), 1001, 1000, Alive(0), Listening(1))
    assert (dumps(history), history.supervisor.state) == ([], State.RUNNING)
    absent = resumed(running().at(1, Listening(0)), 1001, 1000).at(2000)
    assert dumps(absent) == [1061]


def test_the_time_limit_goes_on_while_the_launcher_does_not_run() -> None:
    assert dumps(resumed(running(deadlines=Deadlines(total=50)), 60, 60)) == [60]


@pytest.mark.parametrize(
    "leaves",
    [[Said(0, "finished")], [Said(0, "finished"), Exited(0, 0)], [Exited(0, 0)]],
    ids=["waits for its peers", "and has left", "has left"],
)
def test_a_rank_that_has_finished_is_not_silent(leaves: list[Message]) -> None:
    history = running().all_join(0).at(1, *leaves)
    for now in range(2, 100, 5):
        history.at(now, Alive(1))
    assert dumps(history) == []
    assert dumps(history.at(120)) == [107]
    assert history.supervisor.cause == Cause(Why.STALLED, (1,))


def test_an_evaluator_may_wait_for_checkpoints_in_silence_and_hides_no_other() -> None:
    history = running(EVALUATED).all_join(0)
    for now in range(0, 50, 5):
        history.at(now, Alive(0), Alive(1))
    assert dumps(history) == []
    for now in range(50, 60):
        history.at(now, Alive(2))
    assert history.supervisor.cause == Cause(Why.STALLED, (0, 1))


def test_what_was_to_be_read_is_read_before_silence_is_judged() -> None:
    """After the launcher itself was stopped for long, all signs of life come at once."""
    history = running().all_join(0)
    history.supervisor.handle(Alive(0), 1000.0)
    history.supervisor.handle(Alive(1), 1000.0)
    assert dumps(history.at(1000.0)) == []


def test_a_worker_may_end_while_it_is_asked() -> None:
    history = running().all_join(1).at(11).at(11.2, Exited(0, 0), Exited(1, 0))
    assert history.supervisor.state is State.OVER
    assert history.outcome().exit_code == 124


def test_ctrl_c_does_not_wait_for_the_stacks() -> None:
    history = running().all_join(1).at(11).at(11.2, Signalled(SIGINT))
    assert history.kills() == [(11.2, 0, SIGINT), (11.2, 1, SIGINT)]
    history.at(11.3, Exited(0, -SIGINT), Exited(1, -SIGINT))
    assert history.outcome().exit_code == 130


def test_sigquit_tells_where_the_workers_are_and_the_run_goes_on() -> None:
    history = running().all_join(1).at(3, Signalled(SIGQUIT)).at(3.5, Dumped())
    history.at(5, Signalled(SIGQUIT)).at(8)
    assert dumps(history) == [3, 5]
    assert (3, Dump("SIGQUIT was received", is_last=False)) in history.actions
    assert explanations(history) == [(3.5, True), (7, True)]
    assert history.kills() == []
    assert history.at(9, Exited(0, 0), Exited(1, 0)).outcome().exit_code == 0


def test_sigquit_twice_asks_once() -> None:
    history = running().at(3, Signalled(SIGQUIT)).at(3.1, Signalled(SIGQUIT)).at(4, Dumped())
    assert (dumps(history), explanations(history)) == ([3], [(4, True)])


def test_the_time_limit_and_an_absent_worker_are_explained_too() -> None:
    limited = running(deadlines=Deadlines(total=5)).all_join(1).at(5)
    absent = running(deadlines=Deadlines(start=5)).at(1, Listening(0)).at(6)
    assert (dumps(limited), dumps(absent)) == ([5], [6])
    assert (5, Dump("the time limit of 5 s is over", is_last=True)) in limited.actions
