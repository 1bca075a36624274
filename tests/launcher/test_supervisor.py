"""Supervision as message histories: what happened, and what the supervisor made of it."""

from __future__ import annotations

from signal import SIGINT, SIGKILL, SIGTERM

import pytest

from tests.launcher.histories import History, failure
from tfdist_kit.launcher.messages import (
    Dumped,
    Exited,
    Listening,
    NotStarted,
    Said,
    Signalled,
    Tell,
)
from tfdist_kit.launcher.request import Deadlines
from tfdist_kit.launcher.state import State, Why
from tfdist_kit.launcher.supervisor import SETTLE_SECONDS

EVALUATED = ("chief:0", "worker:0", "evaluator:0")


def test_a_worker_that_was_killed_is_not_blamed_on_us_when_its_peer_cries_first() -> None:
    history = History(deadlines=Deadlines(drain=0)).all_join(1)
    history.failures[0] = failure(2.0, aftermath=True)
    history.at(2, Said(0, "failed")).at(2.02, Exited(1, -9)).at(2.03, Exited(0, 1))
    assert history.kills() == []
    assert (history.outcome().root, history.outcome().exit_code) == (1, 137)


def test_all_workers_end_well() -> None:
    history = History().all_join(1).at(5, Exited(0, 0)).at(6, Exited(1, 0))
    assert history.supervisor.state is State.OVER
    assert history.kills() == []
    assert history.outcome().exit_code == 0


def test_a_signal_that_comes_with_the_end_changes_nothing() -> None:
    history = History().all_join(1).at(5, Exited(0, 0), Exited(1, 0), Signalled(SIGINT))
    assert history.supervisor.state is State.OVER
    assert history.outcome().exit_code == 0


def test_a_failure_gives_peers_the_drain_time_then_term_then_kill() -> None:
    history = History(deadlines=Deadlines(drain=5, grace=3)).all_join(1)
    history.at(10, Said(1, "failed")).at(30)
    assert history.kills() == [
        (15, 0, SIGTERM),  # rank 1 is on its way out
        (18, 0, SIGKILL),
        (18, 1, SIGKILL),
    ]


def test_peers_that_end_by_themselves_are_left_alone() -> None:
    history = History().all_join(1).fails(10, 1).fails(12, 0, aftermath=True)
    assert history.kills() == []
    assert (history.outcome().exit_code, history.outcome().root) == (1, 1)


def test_no_drain_while_somebody_has_not_joined() -> None:
    history = History().at(1, Listening(0)).fails(2, 1).at(20)
    assert history.kills()[0] == (2 + SETTLE_SECONDS, 0, SIGTERM)


def test_the_root_cause_is_the_first_failure_that_is_not_a_consequence() -> None:
    history = History(tasks=("worker:0", "worker:1", "worker:2")).all_join(1)
    history.fails(10.0, 0, aftermath=True).fails(10.1, 2, 3).fails(10.2, 1, 7)
    assert history.outcome().root == 2
    assert history.outcome().others == (0, 1)
    assert history.outcome().exit_code == 3


def test_consequences_alone_are_led_by_the_first() -> None:
    history = History().all_join(1).fails(10, 1, aftermath=True).fails(11, 0, aftermath=True)
    assert history.outcome().root == 1


def test_the_record_decides_when_a_failure_happened_not_the_exit() -> None:
    """A worker's teardown takes seconds; its peer may be gone before it is."""
    history = History().all_join(1)
    history.fails(10, 0)
    history.failures[1] = history.failures[0].__class__(
        **{**vars(history.failures[0]), "monotonic": 9.0, "exit_code": 4}
    )
    history.at(12, Exited(1, 4))
    assert (history.outcome().root, history.outcome().exit_code) == (1, 4)


@pytest.mark.parametrize(
    ("returncode", "exit_code"), [(3, 3), (-SIGKILL, 137), (-11, 139), (255, 255)]
)
def test_exit_code_is_the_root_causes_own(returncode: int, exit_code: int) -> None:
    history = History().all_join(1).at(5, Exited(1, returncode))
    history.fails(5.1, 0, aftermath=True)
    assert (history.outcome().root, history.outcome().exit_code) == (1, exit_code)


def test_a_failed_worker_that_does_not_leave_is_ended_and_keeps_its_own_code() -> None:
    history = History(deadlines=Deadlines(drain=1, grace=1)).all_join(1)
    history.fails(3, 0, aftermath=True)
    history.failures[1] = history.failures[0].__class__(
        **{**vars(history.failures[0]), "monotonic": 2.0, "exit_code": 5, "aftermath": False}
    )
    history.at(2, Said(1, "failed")).at(9, Exited(1, -SIGKILL))
    assert (history.outcome().root, history.outcome().exit_code) == (1, 5)


def test_time_limit() -> None:
    history = History(deadlines=Deadlines(total=60, grace=5)).all_join(1)
    history.at(60).at(60, Dumped()).at(70)
    assert history.kills() == [
        (60, 0, SIGTERM),
        (60, 1, SIGTERM),
        (65, 0, SIGKILL),
        (65, 1, SIGKILL),
    ]
    history.at(71, Exited(0, -SIGKILL), Exited(1, -SIGKILL))
    assert (history.outcome().exit_code, history.outcome().root) == (124, None)


def test_a_worker_that_does_not_join_is_named() -> None:
    history = History(deadlines=Deadlines(start=30)).at(4, Listening(0)).at(34)
    history.at(34, Dumped()).at(40)
    cause = history.supervisor.cause
    assert cause is not None
    assert (cause.why, cause.ranks) == (Why.NOT_STARTED, (1,))
    assert history.kills()[0] == (34, 0, SIGTERM)
    assert any(
        isinstance(action, Tell) and "rank 1 (worker:1) did not join" in action.text
        for _, action in history.actions
    )


def test_no_start_deadline_while_nobody_joins() -> None:
    """A script without TensorFlow, or one that prepares data first, is left in peace."""
    history = History(deadlines=Deadlines(start=30)).at(500)
    assert history.kills() == []


def test_the_start_deadline_ends_when_all_have_joined() -> None:
    history = History(deadlines=Deadlines(start=30)).at(4, Listening(0)).at(33, Listening(1))
    assert history.at(500).kills() == []


def test_a_worker_that_ends_without_joining_ends_a_run_that_waits_for_it() -> None:
    history = History().at(1, Said(1, "finished_without_joining"), Exited(1, 0)).at(3, Listening(0))
    assert history.kills() == [(3, 0, SIGTERM)]
    history.at(4, Exited(0, -SIGTERM))
    assert history.outcome().exit_code == 1
    cause = history.outcome().cause
    assert cause is not None
    assert (cause.why, cause.ranks) == (Why.LEFT_EARLY, (1,))


def test_workers_that_never_join_may_all_end() -> None:
    history = History()
    for rank in (0, 1):
        history.at(1, Said(rank, "finished_without_joining"), Exited(rank, 0))
    assert history.outcome().exit_code == 0


def test_the_evaluator_is_not_waited_for_at_the_start() -> None:
    history = History(EVALUATED, Deadlines(start=5))
    history.at(1, Said(0, "joined"), Said(1, "joined"))
    assert history.at(100).kills() == []


def test_an_evaluator_that_goes_on_is_ended_without_harm() -> None:
    history = History(EVALUATED, Deadlines(evaluator=60, grace=5))
    history.at(1, Said(0, "joined"), Said(1, "joined")).at(10, Exited(0, 0)).at(20, Exited(1, 0))
    history.at(90)
    assert history.kills() == [(80, 2, SIGTERM), (85, 2, SIGKILL)]
    assert history.at(91, Exited(2, -SIGKILL)).outcome().exit_code == 0


def test_an_evaluator_that_fails_is_a_failure() -> None:
    history = History(EVALUATED).all_join(1).fails(5, 2, 9)
    assert history.supervisor.state is State.DRAINING
    history.at(30, Exited(0, -SIGTERM), Exited(1, -SIGTERM))
    assert (history.outcome().root, history.outcome().exit_code) == (2, 9)


def test_ctrl_c_is_passed_on_and_followed_by_kill() -> None:
    history = History(deadlines=Deadlines(grace=5))
    history.at(1, Said(0, "running"), Said(1, "running")).at(3, Signalled(SIGINT)).at(10)
    assert history.kills() == [
        (3, 0, SIGINT),
        (3, 1, SIGINT),
        (8, 0, SIGKILL),
        (8, 1, SIGKILL),
    ]
    history.at(11, Exited(0, -SIGKILL), Exited(1, -SIGKILL))
    assert (history.outcome().exit_code, history.outcome().root) == (130, None)


def test_ctrl_c_is_sigterm_for_a_worker_that_is_still_starting() -> None:
    history = History().at(1, Said(0, "running")).at(3, Signalled(SIGINT))
    assert history.kills() == [(3, 0, SIGINT), (3, 1, SIGTERM)]


def test_a_second_ctrl_c_kills_at_once() -> None:
    history = History().all_join(1).at(3, Signalled(SIGINT)).at(4, Signalled(SIGINT))
    assert history.kills()[2:] == [(4, 0, SIGKILL), (4, 1, SIGKILL)]


def test_ctrl_c_outranks_a_failure() -> None:
    history = History().all_join(1).fails(3, 1).at(4, Signalled(SIGTERM))
    history.at(5, Exited(0, -SIGTERM))
    assert history.outcome().exit_code == 143


def test_one_dead_peer_more_does_not_prolong_the_drain() -> None:
    history = History(("worker:0", "worker:1", "worker:2"), Deadlines(drain=5)).all_join(1)
    history.fails(10, 1).fails(14, 2, aftermath=True).at(30)
    assert history.kills()[0] == (15, 0, SIGTERM)


def test_the_time_limit_holds_while_draining() -> None:
    history = History(deadlines=Deadlines(total=12, drain=30, grace=5)).all_join(1)
    history.at(10, Said(1, "failed")).at(40)
    assert history.kills() == [(12, 0, SIGTERM), (17, 0, SIGKILL), (17, 1, SIGKILL)]


def test_workers_that_were_not_started_do_not_matter() -> None:
    history = History(("worker:0", "worker:1", "worker:2")).at(1, Signalled(SIGINT))
    history.at(2, NotStarted(1), NotStarted(2), Exited(0, -SIGINT))
    assert history.supervisor.state is State.OVER
    assert history.outcome().exit_code == 130
