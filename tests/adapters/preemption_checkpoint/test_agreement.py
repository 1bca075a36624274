"""How the workers agree on the step to stop after: threads for workers, no TensorFlow."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable

import pytest

from tfdist_kit import CheckpointError
from tfdist_kit.adapters.preemption_checkpoint import agreement as agreement_module
from tfdist_kit.adapters.preemption_checkpoint import team as team_module
from tfdist_kit.adapters.preemption_checkpoint.agreement import Agreement, watching
from tfdist_kit.adapters.preemption_checkpoint.store import LocalStore
from tfdist_kit.adapters.preemption_checkpoint.team import Team

LIMIT = 20.0


class Worker:
    """A training loop of `most` steps."""

    def __init__(self, team: Team, step: Callable[[int], None], most: int) -> None:
        self.agreement = Agreement(team, lambda: None)
        self.step = step
        self.most = most
        self.stopped_at: int | None = None
        self.error: Exception | None = None
        self.watcher = watching(self.agreement, team.name)
        self.watcher.start()
        self.trainer = threading.Thread(target=self._train)
        self.trainer.start()

    def _train(self) -> None:
        try:
            for number in range(self.most):
                if not self.agreement.begin_step():
                    self.stopped_at = number
                    return
                self.step(number)
        except CheckpointError as error:
            self.error = error

    def end(self) -> None:
        self.trainer.join(LIMIT)
        self.agreement.close()
        self.watcher.join(LIMIT)
        assert not self.trainer.is_alive()
        assert not self.watcher.is_alive()


def team(size: int) -> list[Team]:
    store = LocalStore()
    names = tuple(f"worker:{rank}" for rank in range(size))
    return [Team(names, rank, store, "test") for rank in range(size)]


@pytest.mark.parametrize("seed", range(12))
def test_workers_that_wait_for_each_other_in_each_step_stop_at_the_same(seed: int) -> None:
    chance = random.Random(seed)
    size = chance.choice([1, 2, 3])
    collective = threading.Barrier(size, timeout=LIMIT)
    told = {rank: chance.randrange(40) for rank in range(size) if chance.random() < 0.7} or {0: 3}
    pauses = [chance.choice([0.001, 0.002, 0.004]) for _ in range(size)]
    workers: list[Worker] = []
    ready = threading.Event()

    def step_of(rank: int) -> Callable[[int], None]:
        def step(number: int) -> None:
            ready.wait(LIMIT)
            if told.get(rank) == number:
                threading.Thread(target=workers[rank].agreement.call).start()
            threading.Event().wait(pauses[rank])
            collective.wait()

        return step

    workers += [Worker(of, step_of(of.rank), 400) for of in team(size)]
    ready.set()
    for worker in workers:
        worker.end()
    stops = {worker.stopped_at for worker in workers}
    assert len(stops) == 1
    assert min(told.values()) < (stops.pop() or 0) < 400


@pytest.mark.parametrize("told", [0, 1])
def test_a_worker_that_runs_ahead_is_waited_for_by_the_other(told: int) -> None:
    """Steps without a collective: TensorFlow's own agreement loses the checkpoint here."""
    workers: list[Worker] = []
    ready = threading.Event()

    def step_of(rank: int) -> Callable[[int], None]:
        def step(number: int) -> None:
            ready.wait(LIMIT)
            threading.Event().wait(0.0005 if rank == 0 else 0.004)
            if rank == told and number == 20:
                threading.Thread(target=workers[rank].agreement.call).start()

        return step

    workers += [Worker(of, step_of(of.rank), 2000) for of in team(2)]
    ready.set()
    for worker in workers:
        worker.end()
    assert workers[0].stopped_at == workers[1].stopped_at
    assert workers[0].stopped_at is not None


def test_the_training_goes_on_and_stops_again() -> None:
    [alone] = team(1)
    agreement = Agreement(alone, lambda: None)
    watcher = watching(agreement, "alone")
    watcher.start()
    stops: list[int] = []
    for call_at in (3, 8):
        for number in itertools.count():
            if number == call_at:
                assert agreement.call()
                while not alone.get(f"begun/{len(stops)}/0", 0.1):
                    pass
            if not agreement.begin_step():
                break
        stops.append(agreement.begun)
        agreement.go_on()
    agreement.close()
    watcher.join(LIMIT)
    assert stops == [3, 11]


def test_a_second_notice_changes_nothing() -> None:
    first, second = (Agreement(of, lambda: None) for of in team(2))
    assert first.call()
    assert not second.call()
    assert not first.call()


def pause(_: int) -> None:
    threading.Event().wait(0.002)


def test_a_worker_without_a_handler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement_module, "ANSWER_SECONDS", 0.05)
    worker = Worker(team(2)[0], pause, 2000)
    worker.agreement.call()
    worker.end()
    assert "worker:1 did not answer a notice" in str(worker.error)


class CutOff(LocalStore):
    """A cluster that is no more once there has been a notice."""

    def get(self, key: str, seconds: float) -> str | None:
        if "begun" in key:
            raise ConnectionError("a peer has died")
        return super().get(key, seconds)


def test_a_step_does_not_wait_for_an_agreement_that_a_death_has_cut_off() -> None:
    alone = Team(("worker:0", "worker:1"), 0, CutOff(), "test")
    agreement = Agreement(alone, lambda: None)
    assert agreement.call()
    agreement.watch()
    with pytest.raises(ConnectionError, match="a peer has died"):
        agreement.begin_step()


def test_everybody_hears_what_all_say_in_rank_order() -> None:
    told: dict[int, list[str]] = {}

    def tell(of: Team) -> None:
        told[of.rank] = of.exchange("x", f"I am {of.rank}", LIMIT, "call x()")

    threads = [threading.Thread(target=tell, args=(of,)) for of in team(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert told == {rank: ["I am 0", "I am 1", "I am 2"] for rank in range(3)}


def test_who_does_not_come_is_named() -> None:
    [_, second, _] = team(3)
    with pytest.raises(CheckpointError, match=r"worker:0, worker:2 did not call x\(\) within 0 s"):
        second.exchange("x", "", 0, "call x()")


def test_the_chief_leaves_last() -> None:
    chief, second, third = team(3)
    left: list[int] = []

    def leave() -> None:
        chief.let_chief_go_last("x")
        left.append(chief.rank)

    leaving = threading.Thread(target=leave)
    leaving.start()
    second.let_chief_go_last("x")
    leaving.join(0.05)
    assert left == []
    third.let_chief_go_last("x")
    leaving.join(LIMIT)
    assert left == [0]


def test_the_chief_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    [chief, _] = team(2)
    monkeypatch.setattr(team_module, "_PARTING_SECONDS", 0.01)
    began = time.monotonic()
    chief.let_chief_go_last("x")
    assert time.monotonic() - began < LIMIT / 2
