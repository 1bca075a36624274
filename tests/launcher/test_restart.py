"""Verdicts on attempts as histories, and the budget as a sequence of verdicts: no process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from signal import SIGINT, SIGTERM

import pytest

import tfdist_kit
from tests.launcher.histories import History
from tfdist_kit.launcher import failure
from tfdist_kit.launcher.failure import is_fatal
from tfdist_kit.launcher.messages import Exited, Listening, Said, Signalled
from tfdist_kit.launcher.request import Deadlines, RestartWish
from tfdist_kit.launcher.restart import Budget, Verdict, judge

DONE, ENDED, FATAL = Verdict.DONE, Verdict.ENDED, Verdict.FATAL
PREEMPTED, LOST, CRASH = Verdict.PREEMPTED, Verdict.LOST_WORKER, Verdict.CRASH
THREE = ("worker:0", "worker:1", "worker:2")


def verdict(history: History) -> Verdict:
    return judge(history.supervisor.workers, history.failures, history.outcome())


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ((0, 0, 0), DONE),
        ((42, 42, 42), PREEMPTED),
        ((0, 42, 0), PREEMPTED),
        ((-15, 42, 143), PREEMPTED),
        ((143, 0, 0), PREEMPTED),
        ((-15, 1, -6), PREEMPTED),  # who has no record of its own went down in the wake
        ((-9, 0, 0), LOST),
        ((137, 1, -6), LOST),
        ((42, -9, 42), LOST),
        ((1, 0, 0), CRASH),
        ((2, 0, 0), CRASH),  # not said by the script's own exit
        ((-11, 0, 0), CRASH),
        ((-6, 0, 0), CRASH),
        ((1, -9, 0), CRASH),  # the crash came first
        ((42, -11, 0), CRASH),
        ((-9, 3, 0), CRASH),
    ],
)
def test_workers_that_left_by_themselves(codes: tuple[int, ...], expected: Verdict) -> None:
    history = History(THREE).all_join(1)
    for rank, code in enumerate(codes):
        history.at(2 + rank / 10, Exited(rank, code))
    assert verdict(history) is expected


def test_peers_of_a_lost_worker_fail_in_its_wake() -> None:
    history = History(THREE).all_join(1).fails(5.0, 1, aftermath=True)
    history.at(5.1, Exited(0, -9)).fails(5.2, 2, aftermath=True)
    assert verdict(history) is LOST


@pytest.mark.parametrize(("apart", "expected"), [(0.04, LOST), (0.1, CRASH)])
def test_ends_that_come_together_are_seen_in_any_order(apart: float, expected: Verdict) -> None:
    history = History().all_join(1).at(5, Exited(0, -6)).at(5 + apart, Exited(1, -9))
    assert verdict(history) is expected


def test_a_run_that_hangs_is_a_crash() -> None:
    history = History(deadlines=Deadlines(stall=10)).at(0, Said(0, "running")).all_join(1).at(20)
    assert verdict(history.at(21, Exited(0, -15), Exited(1, -15))) is CRASH


def test_peers_of_a_preempted_worker_may_be_killed_by_us() -> None:
    history = History(deadlines=Deadlines(drain=5, grace=3)).all_join(1).fails(10, 1, 42)
    history.at(20, Exited(0, -9))
    assert [kill[2] for kill in history.kills()] == [SIGTERM, 9]
    assert verdict(history) is PREEMPTED


def test_a_peer_that_fails_because_we_end_it_is_no_crash() -> None:
    history = History(deadlines=Deadlines(drain=5, grace=3)).all_join(1).fails(10, 1, 42)
    history.at(15.5).fails(16, 0)
    assert verdict(history) is PREEMPTED


def test_a_preempted_worker_that_hangs_on_its_way_out_is_preempted_still() -> None:
    history = History(deadlines=Deadlines(drain=5, grace=3)).all_join(1)
    history.failures[1] = failure.describe(SystemExit(42), exit_code=42, where="")
    history.at(10, Said(1, "failed")).at(11, Exited(0, 0)).at(30, Exited(1, -9))
    assert verdict(history) is PREEMPTED


def test_what_a_worker_recorded_counts_more_than_how_it_died() -> None:
    history = History().all_join(1).fails(10, 1, 1).at(11, Exited(0, 0))
    history.supervisor.workers[1].returncode = -9  # say, out of memory while its traceback is made
    assert verdict(history) is CRASH


def test_an_exception_of_ones_own_beside_a_preemption_is_a_crash() -> None:
    history = History().all_join(1).fails(10, 1, 42).fails(11, 0)
    assert verdict(history) is CRASH
    assert history.outcome().root == 0  # who was told to go does not explain it


def test_failures_that_only_follow_from_nothing_known_are_a_crash() -> None:
    history = History().all_join(1).at(3, Exited(1, 0)).fails(13, 0, aftermath=True)
    assert verdict(history) is CRASH


def test_a_worker_that_does_not_join_is_a_crash() -> None:
    history = History(deadlines=Deadlines(start=10)).at(1, Listening(0)).at(12)
    history.at(13, Exited(0, -15), Exited(1, -15))
    assert verdict(history) is CRASH


def test_a_worker_that_leaves_without_joining_is_a_crash() -> None:
    history = History().at(1, Listening(0)).at(2, Said(1, "finished_without_joining"), Exited(1, 0))
    assert verdict(history.at(3, Exited(0, -15))) is CRASH


@pytest.mark.parametrize("signum", [SIGINT, SIGTERM])
def test_a_signal_to_the_launcher_ends_everything(signum: int) -> None:
    history = History().all_join(1).at(2, Signalled(signum))
    assert verdict(history.at(3, Exited(0, -signum), Exited(1, 42))) is ENDED


def test_so_does_the_time_limit() -> None:
    history = History(deadlines=Deadlines(total=10)).all_join(1).at(11)
    assert verdict(history.at(12, Exited(0, -15), Exited(1, -15))) is ENDED


@pytest.mark.parametrize(("joined", "expected"), [(False, FATAL), (True, CRASH)])
def test_an_error_of_the_script_itself_is_fatal_until_it_has_joined(
    joined: bool, expected: Verdict
) -> None:
    history = History().at(1, *(Said(rank, "joined") for rank in range(2) if joined))
    history.failures[1] = failure.describe(ImportError("no"), exit_code=1, where="")
    history.at(2, Said(1, "failed"), Exited(1, 1)).at(3, Exited(0, -15))
    assert verdict(history) is expected


@pytest.mark.parametrize(
    ("error", "fatal"),
    [
        (SyntaxError("x ="), True),
        (ModuleNotFoundError("no module"), True),
        (SystemExit(2), True),
        (SystemExit(1), False),
        (SystemExit("no data"), False),
        (tfdist_kit.UsageError("no"), True),
        (tfdist_kit.TFConfigError("no"), True),
        (tfdist_kit.JoinTimeoutError("rank 1 is late"), False),
        (ValueError("no"), False),
        (KeyboardInterrupt(), False),
    ],
)
def test_what_no_restart_can_cure(error: BaseException, fatal: bool) -> None:
    assert is_fatal(error) is fatal
    assert failure.describe(error, exit_code=1, where="").fatal is fatal


_ABSL = """\
import sys
from absl import app
from tfdist_kit.launcher.failure import is_fatal
def main(argv): {body}
try: app.run(main, argv=["train.py", *sys.argv[1:]])
except SystemExit as leave: print(leave.code, is_fatal(leave))
"""


@pytest.mark.parametrize(
    ("body", "args", "told"),
    [
        ("raise app.UsageError('no')", [], "1 True"),
        ("pass", ["--no_such_flag"], "1 True"),
        ("sys.exit(1)", [], "1 False"),
    ],
)
def test_wrong_usage_as_absl_reports_it(body: str, args: list[str], told: str) -> None:
    command = [sys.executable, "-c", _ABSL.format(body=body), *args]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1:] == [told], done.stderr


def test_a_record_of_before_can_still_be_read(tmp_path: Path) -> None:
    path = tmp_path / "error.json"
    failure.record(path, failure.describe(ImportError("no"), exit_code=1, where=""))
    path.write_text(path.read_text().replace(',\n "fatal": true', ""))
    read = failure.read(path)
    assert read is not None
    assert (read.type, read.fatal) == ("ImportError", False)


# The budget


def delays(
    limit: int, *history: tuple[Verdict, int | None], delay: float = 1.0, seconds: float = 1.0
) -> list[float | None]:
    """What is decided after each attempt; the run ends at the first None."""
    budget = Budget(RestartWish(limit, delay))
    return [budget.decide(what, step=step, seconds=seconds).delay for what, step in history]


def test_without_the_option_nothing_is_started_again() -> None:
    for what in Verdict:
        assert delays(0, (what, 1)) == [None]


@pytest.mark.parametrize("what", [DONE, ENDED, FATAL])
def test_what_is_never_started_again(what: Verdict) -> None:
    assert delays(5, (what, 1)) == [None]


def test_each_crash_costs_one_restart_and_the_delay_doubles() -> None:
    assert delays(3, *[(CRASH, None)] * 4) == [1, 2, 4, None]


def test_the_delay_is_capped_but_never_below_what_was_asked_for() -> None:
    assert delays(2000, *[(CRASH, None)] * 2000)[5:] == [32, *[60] * 1994]
    assert delays(9, *[(CRASH, None)] * 3, delay=90) == [90, 90, 90]
    assert delays(9, *[(CRASH, None)] * 3, delay=0) == [0, 0, 0]


def test_progress_makes_the_budget_whole_and_the_delay_short() -> None:
    history = [(CRASH, None), (CRASH, 10), (CRASH, 10), (CRASH, 5), (CRASH, 11), (CRASH, None)]
    assert delays(3, *history) == [1, 1, 2, 4, 1, 2]


def test_the_same_step_again_and_again_is_no_progress() -> None:
    assert delays(2, *[(CRASH, 7)] * 3) == [1, 2, None]


@pytest.mark.parametrize("what", [PREEMPTED, LOST])
def test_interruptions_are_free_at_first_and_then_count(what: Verdict) -> None:
    assert delays(1, *[(what, None)] * 5) == [1, 2, 4, 8, None]


def test_a_crash_between_interruptions_does_not_make_them_free_again() -> None:
    history = [(LOST, 3), (LOST, 3), (CRASH, 3), (LOST, 3), (LOST, 3), (LOST, 3)]
    assert delays(2, *history) == [1, 2, 4, 8, 16, None]


def test_interruptions_with_progress_go_on_for_ever() -> None:
    assert delays(1, *[(LOST, step) for step in range(100)]) == [1.0] * 100


def test_a_long_preempted_attempt_of_a_script_that_reports_nothing_is_progress() -> None:
    assert delays(1, *[(PREEMPTED, None)] * 50, seconds=60) == [1.0] * 50
    assert delays(1, *[(LOST, None)] * 5, seconds=60)[-1] is None
    assert delays(1, (PREEMPTED, 9), *[(PREEMPTED, None)] * 4, seconds=60)[-1] is None


@pytest.mark.parametrize(
    ("history", "told"),
    [
        ([CRASH], "1 of 2 restarts used"),
        ([CRASH] * 3, "2 of 2 restarts used up"),
        ([PREEMPTED], "not counted as a crash"),
        ([LOST] * 4, "1 of 2 restarts used"),
        ([FATAL], "it would fail in the same way again"),
        ([ENDED], ""),
    ],
)
def test_the_reason_is_told(history: list[Verdict], told: str) -> None:
    budget = Budget(RestartWish(2))
    assert [budget.decide(what, step=None, seconds=1) for what in history][-1].why == told
