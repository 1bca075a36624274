"""The same lines shown once: by whom, how often, in which order and how soon."""

from __future__ import annotations

import itertools
import random
import re
import time
from pathlib import Path

import pytest

from tests.commands import Command, script, tfdist
from tfdist_kit.launcher.output.collapse import MAX_WAITING, WINDOW, Collapser


class Screen:
    """A collapser with a clock made of numbers, and what it has shown."""

    def __init__(self, ranks: int = 2, *, fds: tuple[int, ...] = (1,)) -> None:
        self.now = 0.0
        self.shown: list[tuple[float, str]] = []
        self.collapser = Collapser(self._write, colours=(), timestamps=False)
        for rank, fd in itertools.product(range(ranks), fds):
            self.collapser.join(rank, fd)

    def _write(self, fd: int, block: bytes) -> None:
        assert block.endswith(b"\n")
        self.shown += [(self.now, line) for line in block.decode().splitlines()]

    def say(self, rank: int, *lines: str, at: float = 0.0, fd: int = 1) -> None:
        while (due := self.collapser.next_deadline()) is not None and due <= at:
            self.now = due
            self.collapser.tick(due)
        self.now = at
        self.collapser.add(rank, fd, "".join(f"{line}\n" for line in lines).encode(), at)

    def end(self) -> list[str]:
        self.collapser.flush()
        return [line for _, line in self.shown]


def test_the_same_line_of_all_ranks_is_shown_once_and_at_once() -> None:
    screen = Screen(8)
    for rank in range(8):
        screen.say(rank, "hello", at=rank / 100)
    assert screen.shown == [(0.07, "[ranks 0-7] hello")]


def test_who_said_it_is_told_in_short() -> None:
    screen = Screen(8)
    for rank in (6, 0, 1, 2, 4):
        screen.say(rank, "hello")
    assert screen.end() == ["[ranks 0-2,4,6] hello"]


def test_what_differs_is_shown_as_it_came() -> None:
    screen = Screen()
    screen.say(0, "loss 0.5", "loss 0.4")
    screen.say(1, "loss 0.6", "loss 0.3")
    assert screen.end() == [
        "[rank 0] loss 0.5",
        "[rank 0] loss 0.4",
        "[rank 1] loss 0.6",
        "[rank 1] loss 0.3",
    ]


def test_nothing_waits_longer_than_the_window() -> None:
    screen = Screen()
    screen.say(0, "a", at=1.0)
    screen.say(0, "b", at=1.1)
    screen.say(1, "c", at=5.0)
    assert screen.shown == [(1.0 + WINDOW, "[rank 0] a"), (1.1 + WINDOW, "[rank 0] b")]
    assert WINDOW <= 0.25


def test_the_same_line_much_later_is_a_line_of_its_own() -> None:
    screen = Screen()
    screen.say(0, "hello", at=0.0)
    screen.say(1, "hello", at=1.0)
    assert screen.end() == ["[rank 0] hello", "[rank 1] hello"]


def test_repeated_lines_of_one_rank_are_counted() -> None:
    screen = Screen()
    screen.say(0, *["retrying"] * 13, "connected")
    assert screen.end() == [
        "[rank 0] retrying",
        "[rank 0] (last line repeated 12 times)",
        "[rank 0] connected",
    ]


def test_the_count_goes_on_after_the_line_was_shown() -> None:
    screen = Screen(1)
    for step in range(100):
        screen.say(0, "retrying", at=step / 20)
    shown = screen.end()
    assert shown[0] == "[rank 0] retrying"
    counts = [int(re.findall(r"repeated (\d+) times", line)[0]) for line in shown[1:]]
    assert 1 + sum(counts) == 100
    assert len(shown) < 30


def test_a_line_that_comes_back_once_is_shown_as_it_is() -> None:
    screen = Screen(1)
    screen.say(0, "still alive", at=0.0)
    screen.say(0, "still alive", at=10.0)
    assert screen.end() == ["[rank 0] still alive"] * 2


def test_ranks_that_repeat_differently_are_told_apart() -> None:
    screen = Screen(3)
    screen.say(0, *["x"] * 3)
    screen.say(1, *["x"] * 3)
    screen.say(2, "x")
    screen.say(0, "end")
    assert sum_up(screen.end()) == {(0, "x"): 3, (1, "x"): 3, (2, "x"): 1, (0, "end"): 1}


def test_a_rank_that_comes_later_meets_lines_in_their_order() -> None:
    screen = Screen(4)
    for rank in range(4):
        screen.say(rank, *["loading", "done"] * 3, at=rank / 100)
    assert screen.end() == ["[ranks 0-3] loading", "[ranks 0-3] done"] * 3


def test_a_rank_that_says_less_meets_the_earliest_lines() -> None:
    screen = Screen(2)
    screen.say(0, *"abcab")
    screen.say(1, *"bab")
    assert screen.end() == [
        "[rank 0] a",
        "[ranks 0-1] b",
        "[rank 0] c",
        "[ranks 0-1] a",
        "[ranks 0-1] b",
    ]


def test_the_streams_are_told_apart() -> None:
    screen = Screen(2, fds=(1, 2))
    screen.say(0, "x", fd=1)
    screen.say(1, "x", fd=2)
    assert screen.end() == ["[rank 0] x", "[rank 1] x"]


def test_nobody_waits_for_a_rank_that_has_left() -> None:
    screen = Screen(2)
    screen.collapser.leave(1, 1)
    screen.say(0, "hello")
    assert [line for _, line in screen.shown] == ["[rank 0] hello"]


def test_memory_is_bounded() -> None:
    screen = Screen(2)
    for start in range(0, 10 * MAX_WAITING, 1000):
        screen.say(0, *map(str, range(start, start + 1000)))
        assert len(screen.collapser._waiting) <= MAX_WAITING
    assert len(screen.end()) == 10 * MAX_WAITING


def sum_up(shown: list[str]) -> dict[tuple[int, str], int]:
    """How often each rank has said what, according to the screen."""
    said: dict[tuple[int, str], int] = {}
    last: dict[int, str] = {}
    for line in shown:
        ranks, text = re.match(r"\[ranks? ([\d,-]+)\] (.*)", line).groups()  # type: ignore[union-attr]
        for rank in expand(ranks):
            if repeated := re.fullmatch(r"\(last line repeated (\d+) times?\)", text):
                said[rank, last[rank]] += int(repeated[1])
            else:
                last[rank] = text
                said[rank, text] = said.get((rank, text), 0) + 1
    return said


def expand(ranks: str) -> list[int]:
    spans = (span.split("-") for span in ranks.split(","))
    return [rank for span in spans for rank in range(int(span[0]), int(span[-1]) + 1)]


def rebuilt(shown: list[str], rank: int) -> list[str]:
    """Every line of one rank, in order, according to the screen."""
    lines: list[str] = []
    for line in shown:
        ranks, text = re.match(r"\[ranks? ([\d,-]+)\] (.*)", line).groups()  # type: ignore[union-attr]
        if rank in expand(ranks):
            repeated = re.fullmatch(r"\(last line repeated (\d+) times?\)", text)
            lines += [lines[-1]] * int(repeated[1]) if repeated else [text]
    return lines


@pytest.mark.parametrize("seed", range(50))
def test_every_rank_can_be_read_back_from_the_screen(seed: int) -> None:
    """Whatever they say and whenever: no line is lost, doubled or out of order."""
    chance = random.Random(seed)
    screen, said, now = Screen(3), dict[int, list[str]](), 0.0
    for _ in range(300):
        now += chance.choice([0.0, 0.0, 0.01, 0.3])
        rank = chance.randrange(3)
        lines = [chance.choice("abc") for _ in range(chance.randint(1, 4))]
        said.setdefault(rank, []).extend(lines)
        screen.say(rank, *lines, at=now)
    shown = screen.end()
    assert {rank: rebuilt(shown, rank) for rank in said} == said
    assert len(shown) < sum(map(len, said.values()))


def test_four_real_workers(tmp_path: Path) -> None:
    name = script(
        tmp_path,
        "import os, time\n"
        "while len([x for x in os.listdir() if x[:2] == 'up']) < 4:\n"
        "    open('up' + os.environ['TFDIST_RANK'], 'w').close()\n"
        "for _ in range(5): print('the same')\n"
        "print('mine', os.environ['TFDIST_RANK'])\n",
    )
    args = ["-n", "4", "--collapse", "--log-dir", "logs", name]
    result = tfdist("run", *args, folder=tmp_path)
    assert result.code == 0
    shown = result.out.splitlines()
    for rank in range(4):
        expected = ["the same"] * 5 + [f"mine {rank}"]
        assert rebuilt(shown, rank) == expected
        log = tmp_path / f"logs/attempt_0/rank_{rank}/stdout.log"
        assert log.read_text().splitlines() == expected
    assert len(shown) < 24


def test_a_line_is_shown_soon_while_the_workers_go_on(tmp_path: Path) -> None:
    name = script(tmp_path, "import os, time\nprint(os.getpid())\ntime.sleep(60)")
    with Command(["run", "--collapse", name], tmp_path, {}) as command:
        assert command.process.stdout is not None
        assert command.process.stdout.readline().startswith("[rank ")
        begin = time.monotonic()
        assert command.process.stdout.readline().startswith("[rank ")
        assert time.monotonic() - begin < 10


def test_all_is_shown_before_the_summary(tmp_path: Path) -> None:
    name = script(tmp_path, "import os, sys; print(os.getpid(), 'last words', file=sys.stderr)")
    lines = tfdist("run", "--collapse", name, folder=tmp_path).err.splitlines()
    assert [line.startswith("[rank ") for line in lines] == [True, True, False]
