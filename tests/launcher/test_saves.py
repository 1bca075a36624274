"""Saves after a notice as message histories: nobody is ended meanwhile, and nothing is put off."""

from __future__ import annotations

from signal import SIGINT, SIGKILL, SIGTERM

import pytest

from tests.launcher.histories import TWO, History
from tfdist_kit.launcher.messages import (
    Exited,
    Message,
    Paused,
    Progress,
    Release,
    Said,
    Signalled,
    Tell,
)
from tfdist_kit.launcher.request import Deadlines
from tfdist_kit.launcher.state import State, Why

THREE = ("worker:0", "worker:1", "worker:2")
SOON = Deadlines(drain=5, grace=3, save=60)


def saving(at: float, *ranks: int, tasks: tuple[str, ...] = TWO) -> History:
    """All have joined, and `ranks` begin to save."""
    return History(tasks, SOON).all_join(1).at(at, *(Said(rank, "saving") for rank in ranks))


def tells(history: History, text: str) -> bool:
    told = (action.text for _, action in history.actions if isinstance(action, Tell))
    return any(text in line for line in told)


def test_the_drain_waits_for_a_save_and_begins_with_its_end() -> None:
    history = saving(10, 0, 1).at(11, Said(1, "saved")).fails(11.2, 1, 42)
    assert tells(history, "its peers have 5 s to end, and up to 60 s to save")
    assert history.at(40, Said(0, "saved")).kills() == []
    assert history.at(60).kills() == [(45, 0, SIGTERM), (48, 0, SIGKILL)]


def test_who_saves_in_time_and_leaves_is_left_alone() -> None:
    history = saving(10, 0).fails(11, 1, 42).at(40, Said(0, "saved")).fails(41, 0, 42)
    assert history.kills() == []
    assert (history.supervisor.state, history.outcome().exit_code) == (State.OVER, 42)


def test_a_save_that_begins_during_the_drain_counts_too() -> None:
    history = History(deadlines=SOON).all_join(1).fails(10, 1, 42).at(14.9, Said(0, "saving"))
    assert history.at(40, Said(0, "saved")).at(44).kills() == []


def test_a_peer_that_does_not_save_is_kept_for_one_that_does() -> None:
    history = saving(10, 0, tasks=THREE).fails(11, 1, 42).at(40).fails(40, 0, 42)
    assert history.at(60).kills() == [(45, 2, SIGTERM), (48, 2, SIGKILL)]


@pytest.mark.parametrize("again", [False, True], ids=["once", "again and again"])
def test_a_save_has_a_deadline(again: bool) -> None:
    history = History(deadlines=SOON).all_join(1).fails(10, 1, 42).at(12, Said(0, "saving"))
    for now in range(20, 120, 9) if again else ():
        history.at(now, Said(0, "saved"), Said(0, "saving"))
    assert history.at(120).kills() == [(70, 0, SIGTERM), (73, 0, SIGKILL)]
    assert tells(history, "rank 0 (worker:0) did not save within 60 s (--save-timeout)")


def test_the_deadline_of_a_save_that_began_before_counts_from_its_begin() -> None:
    assert saving(10, 0).fails(40, 1, 42).at(80).kills()[0] == (70, 0, SIGTERM)


def test_no_time_for_saving_is_the_plain_drain() -> None:
    history = History(deadlines=Deadlines(drain=5, save=0)).all_join(1).at(10, Said(0, "saving"))
    assert history.fails(10, 1, 42).at(20).kills()[0] == (15, 0, SIGTERM)


@pytest.mark.parametrize("end", [Exited(0, -9), Said(0, "failed")])
def test_the_peers_of_who_fails_in_its_save_have_the_drain_from_then(end: Message) -> None:
    history = saving(10, 0, tasks=THREE).fails(11, 1, 42).at(30, end).at(36)
    assert history.kills()[0][0] == 35


@pytest.mark.parametrize("signum", [SIGTERM, SIGINT])
def test_the_grace_period_waits_as_well(signum: int) -> None:
    history = History(deadlines=SOON).all_join(1)
    history.at(2, *(Said(rank, "running") for rank in (0, 1)))
    history.at(3, Signalled(signum)).at(5.9, Said(0, "saving")).at(40, Said(0, "saved")).at(50)
    assert [kill for kill in history.kills() if kill[2] == SIGKILL] == [
        (43, 0, SIGKILL),
        (43, 1, SIGKILL),
    ]


def test_the_grace_period_does_not_wait_for_ever() -> None:
    history = saving(2.5, 0).at(3, Signalled(SIGTERM)).at(100)
    assert history.kills()[2:] == [(62.5, 0, SIGKILL), (62.5, 1, SIGKILL)]


def test_a_second_signal_kills_who_is_saving_at_once() -> None:
    history = saving(2, 0, 1).at(3, Signalled(SIGTERM)).at(4, Signalled(SIGTERM))
    assert history.kills()[2:] == [(4, 0, SIGKILL), (4, 1, SIGKILL)]


def test_the_time_limit_waits_for_a_save() -> None:
    history = History(deadlines=Deadlines(total=20, drain=5, save=60)).all_join(1)
    history.at(19, Said(0, "saving"), Said(1, "saving")).at(30, Said(0, "saved"), Said(1, "saved"))
    assert history.at(34).supervisor.state is State.RUNNING
    cause = history.at(40).supervisor.cause
    assert cause is not None
    assert (cause.why, history.kills()[0][0]) == (Why.TIME_LIMIT, 37)


def test_who_is_saving_is_not_silent_until_its_deadline() -> None:
    history = History(deadlines=Deadlines(stall=10, save=60))
    history.at(0, Said(0, "running"), Said(1, "running")).all_join(1)
    history.at(5, Said(0, "saving")).at(40, Said(0, "saved"), Said(0, "saving")).at(99)
    assert history.supervisor.state is State.RUNNING
    cause = history.at(101).supervisor.cause
    assert cause is not None
    assert (cause.why, cause.ranks) == (Why.STALLED, (0, 1))


def test_after_a_save_everybody_may_be_silent_anew() -> None:
    history = History(deadlines=Deadlines(stall=10, save=60))
    history.at(0, Said(0, "running"), Said(1, "running")).all_join(1)
    history.at(5, Said(0, "saving")).at(40, Said(0, "saved")).at(49)
    assert history.supervisor.state is State.RUNNING
    history.at(51)
    assert history.supervisor.state is not State.RUNNING


@pytest.mark.parametrize("message", [Said(0, "saving"), Signalled(SIGTERM)])
def test_who_has_finished_stays_while_a_peer_saves(message: Message) -> None:
    history = saving(10, 0).at(10, Said(1, "finished")).at(11, message).at(40)
    released = [now for now, action in history.actions if isinstance(action, Release)]
    assert released == []
    history.at(40, Said(0, "saved")).at(41, Exited(0, 42))
    released = [now for now, action in history.actions if isinstance(action, Release)]
    assert len(released) == 1
    assert released[0] in (40, 41)


def test_time_in_which_the_launcher_did_not_run_is_no_time_for_saving() -> None:
    history = saving(10, 0).fails(11, 1, 42).at(50, Paused(30)).at(99)
    assert history.kills() == []
    assert history.at(110).kills()[0] == (100, 0, SIGTERM)


def test_nor_for_leaving_after_a_save_nor_of_the_run_that_is_being_ended() -> None:
    history = saving(10, 0).fails(11, 1, 42).at(40, Said(0, "saved")).at(42, Paused(30)).at(90)
    assert history.kills()[0] == (75, 0, SIGTERM)
    history = History(deadlines=SOON).all_join(1).fails(10, 1, 42).at(12, Paused(30))
    assert history.at(43, Said(0, "saving")).at(120).kills()[0] == (100, 0, SIGTERM)


# Nobody has trained yet

WATCHED = (Said(0, "watching"),)


@pytest.mark.parametrize(
    ("before", "code", "ended_at"),
    [
        (WATCHED, 42, 10),
        (WATCHED, -9, 10),
        (WATCHED, -15, 10),
        ((*WATCHED, Progress(1, None)), 42, 10),  # a sign of life is no step
        (WATCHED, 1, 15),  # a crash: what its peers say helps
        ((), 42, 15),  # a program that never tells of its steps may have made many
        ((Progress(0, None),), 42, 15),
        ((Said(1, "heeding"),), 42, 10),  # it would have told of a handler of its own
        ((Said(1, "heeding"),), -9, 15),
        ((Said(0, "heeding"),), 42, 15),
        ((Said(1, "heeding"), Progress(0, 1)), 42, 15),
        ((*WATCHED, Progress(1, 1)), 42, 15),
        ((*WATCHED, Progress(0, 1)), -9, 15),
        ((*WATCHED, Said(1, "saving"), Said(1, "saved")), 42, 15),
        ((*WATCHED, Said(0, "saving")), 42, 62),
    ],
)
def test_peers_are_ended_at_once_only_if_nothing_can_be_lost(
    before: tuple[Message, ...], code: int, ended_at: float
) -> None:
    history = History(deadlines=SOON).all_join(1)
    for message in before:
        history.at(2, message)
    history.at(10, Exited(1, code)).at(100)
    assert history.kills()[0] == (ended_at, 0, SIGTERM)


@pytest.mark.parametrize(("code", "ended_at"), [(42, 10.3), (1, 15)])
def test_so_they_are_when_the_reason_is_known_later(code: int, ended_at: float) -> None:
    history = History(deadlines=SOON).all_join(1).at(2, *WATCHED)
    history.at(10, Said(1, "failed")).at(10.3, Exited(1, code)).at(20)
    assert history.kills()[0] == (ended_at, 0, SIGTERM)
    assert tells(history, "nobody has trained yet; ending the others") == (code == 42)
