"""A test that runs in workers: its outcome, and what is told of it. No TensorFlow in them."""

from __future__ import annotations

import re

import pytest

from tests.testing.sessions import Session, session_once

TESTS = """\
import os, signal, sys, time, warnings
import pytest

pytestmark = pytest.mark.tfdist(timeout=30)

def test_passes(tf_worker):
    print("out of", tf_worker.rank)

def test_fails(tf_worker):
    print("out of", tf_worker.rank)
    print("err of", tf_worker.rank, file=sys.stderr)
    mine = [1, 2, tf_worker.rank]
    assert mine == [1, 2, 0]

class UnavailableError(Exception): pass

def test_peer_is_told_apart(tf_worker):
    if tf_worker.rank == 0:
        raise UnavailableError("Collective ops is aborted by: Socket closed")
    time.sleep(0.3)
    assert tf_worker.rank == 0, "the cause"

def test_both_fail(tf_worker):
    time.sleep(0.2 * tf_worker.rank)
    raise KeyError(f"of {tf_worker.rank}")

def test_peer_waits(tf_worker):
    if tf_worker.rank == 1:
        raise KeyError("the cause")
    time.sleep(60)

@pytest.mark.parametrize("signum", [signal.SIGSEGV, signal.SIGKILL], ids=["SIGSEGV", "SIGKILL"])
def test_crashes(tf_worker, signum):
    if tf_worker.rank == 0:
        os.kill(os.getpid(), signum)
    time.sleep(60)

def test_leaves(tf_worker):
    if tf_worker.rank == 0:
        os._exit(7)

def test_leaves_by_the_interpreter(tf_worker):
    if tf_worker.rank == 0:
        sys.exit(7)

@pytest.mark.tfdist(timeout=1)
def test_hangs(tf_worker):
    if tf_worker.rank == 1:
        time.sleep(60)

@pytest.mark.tfdist(timeout=1)
def test_all_hang(tf_worker):
    if tf_worker.rank == 1:
        time.sleep(60)
    time.sleep(60)

def test_skips(tf_worker):
    pytest.skip("not today")

def test_skips_in_one(tf_worker):
    if tf_worker.rank == 1:
        pytest.skip("not here")

def test_skips_in_one_and_fails_in_the_other(tf_worker):
    if tf_worker.rank == 1:
        pytest.skip("not here")
    time.sleep(2)  # beyond what the others of a failed rank have
    assert tf_worker.rank == 1

@pytest.mark.tfdist(timeout=1)
def test_skips_in_one_and_hangs_in_the_other(tf_worker):
    if tf_worker.rank == 1:
        pytest.skip("not here")
    time.sleep(60)

@pytest.fixture
def breaks_after_all(tf_worker):
    yield
    raise KeyError("after all")

def test_skips_and_breaks_afterwards(breaks_after_all):
    pytest.skip("not today")

def test_fails_as_it_says_and_breaks_afterwards(breaks_after_all):
    pytest.xfail("a known fault")

def test_part_is_skipped_and_another_fails(subtests):
    with subtests.test("a"):
        pytest.skip("not this")
    with subtests.test("b"):
        assert 1 == 2

def test_part_is_skipped(subtests):
    with subtests.test("a"):
        pytest.skip("not this")

@pytest.mark.xfail(reason="known")
def test_crashes_although_marked(tf_worker):
    if tf_worker.rank == 1:
        os.abort()

def test_passes_although_marked_late(request):
    request.applymarker(pytest.mark.xfail(reason="late", strict=True))

def test_fails_as_marked_late(request):
    request.applymarker(pytest.mark.xfail(reason="late", strict=True))
    assert 1 == 2

def test_is_its_own_cause(tf_worker):
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    raise one

@pytest.mark.tfdist(workers=1)
def test_forks_and_lets_the_child_go_on():
    if os.fork() == 0:
        return
    time.sleep(0.5)

@pytest.mark.tfdist(workers=1)
def test_fails_after_a_fork():
    time.sleep(1)
    assert 1 == 2

@pytest.mark.tfdist(workers=1)
def test_forks_and_fails():
    if os.fork() == 0:
        return
    os.wait()
    assert 1 == 2

class TwoArguments(Warning):
    def __init__(self, one, two): super().__init__(one, two)

def test_warns_with_a_class_of_its_own():
    warnings.warn(TwoArguments(1, 2))

def test_closes_its_output():
    sys.stdout.close()

def test_has_output_again():
    print("here")
    sys.stdout.flush()

@pytest.mark.skipif("sys.platform != ''", reason="everywhere")
def test_is_skipped(tf_worker): pass

def test_fails_as_it_says(tf_worker):
    if tf_worker.rank == 1:
        pytest.xfail("a known fault")

@pytest.mark.xfail(reason="known", raises=KeyError, strict=True)
def test_fails_as_marked(tf_worker):
    if tf_worker.rank == 1:
        raise KeyError("known")

@pytest.mark.xfail(reason="known", raises=KeyError, strict=True)
def test_fails_otherwise_than_marked(tf_worker):
    assert tf_worker.rank == 0

@pytest.mark.xfail(reason="known", strict=True)
def test_passes_although_marked(tf_worker): pass

@pytest.mark.xfail(reason="known")
def test_may_pass_although_marked(tf_worker): pass

@pytest.fixture
def broken(tf_worker):
    if tf_worker.rank == 1:
        raise KeyError("in the fixture")

def test_fixture_fails(broken): pass

@pytest.fixture
def breaks_afterwards(tf_worker):
    yield
    if tf_worker.rank == 1:
        raise KeyError("at the end")

def test_teardown_fails(breaks_afterwards): pass

def test_warns(tf_worker):
    warnings.warn("look out", RuntimeWarning)

def test_raises_what_cannot_be_sent(tf_worker):
    class Local(Exception):
        pass
    raise Local(open(os.devnull))

def test_tells_properties(record_property, tf_worker):
    record_property("rank", tf_worker.rank)

@pytest.mark.tfdist(chief=True, evaluator=1, workers=1)
def test_roles(tf_worker):
    assert tf_worker.task == ["chief:0", "worker:0", "evaluator:0"][tf_worker.rank]
    assert tf_worker.is_chief == (tf_worker.rank == 0)
    assert tf_worker.size == 3

def test_ends_pytest_itself(tf_worker):
    if tf_worker.rank == 1:
        raise KeyboardInterrupt

def test_passes_afterwards(tf_worker): pass
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Session:
    args = ("-o", "tfdist_preload=", "--durations=0")
    return session_once(tmp_path_factory, {"test_it.py": TESTS}, *args)


OUTCOMES = {
    "test_passes": "passed",
    "test_fails": "failed",
    "test_peer_is_told_apart": "failed",
    "test_both_fail": "failed",
    "test_peer_waits": "failed",
    "test_crashes[SIGSEGV]": "failed",
    "test_crashes[SIGKILL]": "failed",
    "test_leaves": "failed",
    "test_leaves_by_the_interpreter": "failed",
    "test_hangs": "failed",
    "test_all_hang": "failed",
    "test_skips": "skipped",
    "test_skips_in_one": "skipped",
    "test_skips_in_one_and_fails_in_the_other": "failed",
    "test_skips_in_one_and_hangs_in_the_other": "failed",
    "test_skips_and_breaks_afterwards": "failed",
    "test_fails_as_it_says_and_breaks_afterwards": "failed",
    "test_part_is_skipped_and_another_fails": "failed",
    "test_part_is_skipped": "passed",
    "test_crashes_although_marked": "failed",
    "test_passes_although_marked_late": "failed",
    "test_fails_as_marked_late": "xfailed",
    "test_is_its_own_cause": "failed",
    "test_forks_and_lets_the_child_go_on": "passed",
    "test_fails_after_a_fork": "failed",
    "test_forks_and_fails": "failed",
    "test_warns_with_a_class_of_its_own": "passed",
    "test_closes_its_output": "passed",
    "test_has_output_again": "passed",
    "test_is_skipped": "skipped",
    "test_fails_as_it_says": "xfailed",
    "test_fails_as_marked": "xfailed",
    "test_fails_otherwise_than_marked": "failed",
    "test_passes_although_marked": "failed",
    "test_may_pass_although_marked": "xpassed",
    "test_fixture_fails": "failed",
    "test_teardown_fails": "failed",
    "test_warns": "passed",
    "test_raises_what_cannot_be_sent": "failed",
    "test_tells_properties": "passed",
    "test_roles": "passed",
    "test_ends_pytest_itself": "failed",
    "test_passes_afterwards": "passed",
}


def test_every_test_ends_as_its_workers_do(ran: Session) -> None:
    assert {name: went.outcome for name, went in ran.tests.items()} == OUTCOMES, ran.out


TELLS = {
    "test_fails": [
        "assert [1, 2, 1] == [1, 2, 0]",
        "At index 2 diff: 1 != 0",
        "tf_worker = Worker(rank=1",
        "  rank 0 (worker:0)  passed",
        "> rank 1 (worker:1)  failed: test_it.py:13: assert [1, 2, 1] == [1, 2, 0]",
    ],
    "test_peer_is_told_apart": [
        "AssertionError: the cause",
        "  rank 0 (worker:0)  aborted: test_it.py:19: ",
        "> rank 1 (worker:1)  failed: ",
    ],
    "test_both_fail": [
        "KeyError: 'of 0'",
        "> rank 0 (worker:0)  failed: test_it.py:25: KeyError: 'of 0'",
        "  rank 1 (worker:1)  failed: test_it.py:25: KeyError: 'of 1'",
    ],
    "test_peer_waits": [
        "KeyError: 'the cause'",
        "  rank 0 (worker:0)  aborted: is at test_it.py:30: time.sleep(60)",
    ],
    "test_crashes[SIGSEGV]": [
        "rank 0 (worker:0) crashed: killed by SIGSEGV",
        "  rank 1 (worker:1)  aborted: is at test_it.py:36: time.sleep(60)",
    ],
    "test_crashes[SIGKILL]": ["rank 0 (worker:0) crashed: killed by SIGKILL"],
    "test_leaves": ["crashed: left with exit code 7", "  rank 1 (worker:1)  passed"],
    "test_leaves_by_the_interpreter": ["SystemExit: 7", "  rank 1 (worker:1)  passed"],
    "test_hangs": [
        "rank 1 (worker:1) timed out: is at test_it.py:49: time.sleep(60)",
        "  rank 0 (worker:0)  passed",
    ],
    "test_all_hang": [
        "> rank 0 (worker:0)  timed out: is at test_it.py:55: time.sleep(60)",
        "  rank 1 (worker:1)  timed out: is at test_it.py:54: time.sleep(60)",
        "the ranks are at different places",
    ],
    "test_skips": ["test_it.py", "58", "Skipped: not today"],
    "test_skips_in_one_and_hangs_in_the_other": ["rank 0 (worker:0) timed out: is at test_it.py:"],
    "test_skips_and_breaks_afterwards": ["KeyError: 'after all'"],
    "test_is_its_own_cause": ["ValueError: one"],
    "test_skips_in_one": ["Skipped: not here"],
    "test_fails_as_it_says": ["a known fault"],
    "test_passes_although_marked": ["[XPASS(strict)] known"],
    "test_fixture_fails": ["KeyError: 'in the fixture'", "failed: test_it.py:{setup} in setup: "],
    "test_teardown_fails": [
        "KeyError: 'at the end'",
        "failed: test_it.py:{teardown} in teardown: ",
    ],
    "test_raises_what_cannot_be_sent": ["Local: <_io.TextIOWrapper"],
    "test_ends_pytest_itself": ["the test ended pytest in the worker: KeyboardInterrupt"],
}


def line_of(text: str) -> int:
    return next(n for n, line in enumerate(TESTS.splitlines(), 1) if text in line)


@pytest.mark.parametrize("name", TELLS)
def test_the_root_cause_comes_first_and_then_every_rank(ran: Session, name: str) -> None:
    text = ran[name].text
    lines = {
        "setup": line_of('raise KeyError("in the fixture")'),
        "teardown": line_of('raise KeyError("at the end")'),
    }
    for told in TELLS[name]:
        assert re.sub(r"\{(\w+)\}", lambda found: str(lines[found[1]]), told) in text
    assert "tfdist_kit/" not in text


def test_the_headline_names_the_rank(ran: Session) -> None:
    assert ran["test_fails"].headline == "test_fails, rank 1 (worker:1)"


def test_output_comes_by_rank(ran: Session) -> None:
    sections = ran["test_fails"].sections
    assert sections["Captured stdout of rank 0 (worker:0)"] == "out of 0\n"
    assert sections["Captured stdout of rank 1 (worker:1)"] == "out of 1\n"
    assert sections["Captured stderr of rank 1 (worker:1)"] == "err of 1\n"
    assert ran["test_passes"].sections["Captured stdout of rank 1 (worker:1)"] == "out of 1\n"


def test_a_second_failure_is_told_in_full(ran: Session) -> None:
    assert "KeyError: 'of 1'" in ran["test_both_fail"].sections["rank 1 (worker:1) failed, too"]


def test_a_hang_attaches_the_stacks_of_all_that_hang(ran: Session) -> None:
    sections = ran["test_all_hang"].sections
    for rank, line in ((0, 55), (1, 54)):
        stacks = sections[f"Stacks of rank {rank} (worker:{rank})"]
        assert f'test_it.py", line {line} in test_all_hang' in stacks
        assert "_pytest" not in stacks


def test_a_hang_costs_the_test_its_deadline(ran: Session) -> None:
    [line] = [line for line in ran.out.splitlines() if "call" in line and "::test_hangs" in line]
    assert 1.0 <= float(line.split("s")[0]) < 6.0


def test_warnings_and_properties_come_from_the_workers(ran: Session) -> None:
    assert "RuntimeWarning: look out" in ran.out
    assert ran["test_tells_properties"].properties == [["rank", 0], ["rank", 1]]
