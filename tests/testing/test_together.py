"""What the workers of one test do together. No TensorFlow in them."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tfdist_kit import ClusterError, ExchangeError, LocalCluster, WorkerLostError
from tfdist_kit.launcher import CallOutcome
from tfdist_kit.testing import (
    assert_ranks_agree,
    barrier,
    gather,
    parallel_assert,
    together,
)


def rank() -> int:
    return int(os.environ["TFDIST_RANK"])


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(3, preload=(), timeout=20, drain=20) as made:
        yield made


def kinds(outcome: CallOutcome) -> list[str]:
    """How it went in each worker, where a failure in consequence of another counts as such."""
    return [
        "aftermath" if each.failure is not None and each.failure.aftermath else each.kind
        for each in outcome.ranks
    ]


def messages(outcome: CallOutcome) -> list[str]:
    return [each.failure.message if each.failure else "" for each in outcome.ranks]


# Values


def several() -> list[Any]:
    first = gather(rank())
    time.sleep(0.1 * rank())
    barrier()
    return [first, gather({"square": rank() ** 2, "array": np.arange(rank())})]


def test_every_worker_gets_what_all_of_them_give(cluster: LocalCluster) -> None:
    told = cluster.run(several)
    for first, second in told:
        assert first == [0, 1, 2]
        assert [each["square"] for each in second] == [0, 1, 4]
        assert [len(each["array"]) for each in second] == [0, 1, 2]


def give_much() -> list[int]:
    return [len(each) for each in gather(bytes(10_000_000 + rank()))]


def test_large_values(cluster: LocalCluster) -> None:
    assert cluster.run(give_much)[2] == [10_000_000, 10_000_001, 10_000_002]


def test_only_the_workers_of_the_call_take_part(cluster: LocalCluster) -> None:
    assert cluster.run(gather, "x", ranks=[0, 2]) == [["x", "x"]] * 2


def give_what_cannot_be_given() -> str:
    with pytest.raises(Exception, match="a generator cannot be given to the other workers"):
        gather(number for number in range(3))
    return str(gather("well"))


def test_a_value_that_cannot_be_sent_is_refused_before_anybody_waits(cluster: LocalCluster) -> None:
    assert cluster.run(give_what_cannot_be_given) == ["['well', 'well', 'well']"] * 3


# Those who do not come


def leave_out(how: str) -> list[int]:
    if rank() == 1:
        if how == "fails":
            raise KeyError("the cause")
        return []
    return gather(rank())


@pytest.mark.parametrize("how", ["fails", "ends"])
def test_a_worker_that_will_not_come_is_not_waited_for(cluster: LocalCluster, how: str) -> None:
    begin = time.monotonic()
    outcome = cluster.run_each(leave_out, how)
    assert time.monotonic() - begin < 5
    told = {"fails": "has failed", "ends": "has ended"}[how]
    for message in messages(outcome)[::2]:
        assert f"rank 1 (worker:1) {told} without taking part in gather() at " in message
        assert "test_together.py:" in message
    if how == "fails":
        assert kinds(outcome) == ["aftermath", "raised", "aftermath"]
        with pytest.raises(KeyError, match="the cause"):
            raise outcome.error() or AssertionError
    else:
        assert kinds(outcome) == ["raised", "returned", "raised"]
        assert isinstance(outcome.error(), ExchangeError)


def die() -> list[int]:
    if rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return gather(rank())


def test_a_worker_that_dies_is_not_waited_for() -> None:
    with LocalCluster(2, preload=(), timeout=20, drain=20) as made:
        outcome = made.run_each(die)
        assert kinds(outcome) == ["aftermath", "died"]
        assert "has died without taking part" in messages(outcome)[0]
        assert isinstance(outcome.error(), WorkerLostError)
        with pytest.raises(ClusterError, match="died or hung"):
            made.run_each(rank)


def differ() -> None:
    if rank() == 1:
        barrier()
    else:
        gather(rank())


def test_workers_that_make_different_calls_are_told(cluster: LocalCluster) -> None:
    outcome = cluster.run_each(differ)
    assert kinds(outcome) == ["raised"] * 3
    for message in messages(outcome):
        assert "rank 0 (worker:0) gather() at " in message
        assert "rank 1 (worker:1) barrier() at " in message
    assert cluster.run(rank) == [0, 1, 2], "the cluster goes on"


def exchange_elsewhere() -> str:
    told = []

    def give() -> None:
        try:
            gather(1)
        except Exception as error:
            told.append(str(error))

    thread = threading.Thread(target=give)
    thread.start()
    thread.join()
    barrier()
    return told[0]


def test_only_the_thread_of_the_call_takes_part(cluster: LocalCluster) -> None:
    for text in cluster.run(exchange_elsewhere):
        assert "gather() was called by a thread of its own" in text


def fork_and_return() -> int:
    if os.fork() == 0:
        return -1
    os.wait()
    return rank()


def test_a_fork_of_a_worker_does_not_answer_for_it(cluster: LocalCluster) -> None:
    assert cluster.run(fork_and_return) == [0, 1, 2]
    assert cluster.run(rank) == [0, 1, 2]


# One fate for all


def assert_in_parallel(failing: int) -> None:
    parallel_assert(rank() != failing, "it is too large")


def test_what_is_false_in_one_fails_in_all(cluster: LocalCluster) -> None:
    assert cluster.run(assert_in_parallel, 3) == [None] * 3
    outcome = cluster.run_each(assert_in_parallel, 1)
    assert kinds(outcome) == ["aftermath", "raised", "aftermath"]
    assert messages(outcome)[1] == "it is too large (false on rank 1)"
    assert "the condition is false on rank 1: it is too large" in messages(outcome)[0]


def do_together(failing: int) -> None:
    with together():
        assert rank() != failing, "too large"


def test_a_block_that_fails_in_one_fails_in_all(cluster: LocalCluster) -> None:
    assert cluster.run(do_together, 3) == [None] * 3
    outcome = cluster.run_each(do_together, 2)
    assert kinds(outcome) == ["aftermath", "aftermath", "raised"]
    assert "the block failed on rank 2: AssertionError: too large" in messages(outcome)[0]


def agree(values: list[Any]) -> None:
    assert_ranks_agree(values[rank()])


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([1, 1, 1], ""),
        ([{"a": 1}] * 3, ""),
        ([np.arange(3)] * 3, ""),
        ([1, 2, 1], "  ranks 0, 2: 1\n  rank 1: 2"),
        ([1, 1.0, True], "  rank 0: 1\n  rank 1: 1.0\n  rank 2: True"),
        ([float("nan")] * 3, ""),
        ([np.array([np.nan])] * 3, ""),
        ([[np.arange(3)]] * 3, ""),
        ([{"a": np.arange(n)} for n in (1, 2, 1)], "  ranks 0, 2: {'a': array([0])}\n  rank 1: "),
        ([np.arange(3), np.arange(3.0), np.arange(3)], "  ranks 0, 2: array([0, 1, 2])\n"),
        ([np.arange(3), np.arange(4), np.arange(3)], "  ranks 0, 2: array([0, 1, 2])\n  rank 1: "),
    ],
)
def test_the_ranks_agree(cluster: LocalCluster, values: list[Any], told: str) -> None:
    outcome = cluster.run_each(agree, values)
    if told:
        assert kinds(outcome) == ["raised"] * 3
        assert all(told in message for message in messages(outcome))
    else:
        assert kinds(outcome) == ["returned"] * 3


def test_alone_each_acts_for_itself() -> None:
    assert gather(3) == [3]
    barrier()
    parallel_assert(True)
    assert_ranks_agree(object())
    with pytest.raises(AssertionError, match=r"^no$"):
        parallel_assert(False, "no")
    with pytest.raises(KeyError), together():
        raise KeyError
