"""The status lines on a real terminal, and what is left of them there."""

from __future__ import annotations

import os
import pty
import re
import signal
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import script, tfdist
from tests.terminal import Terminal
from tfdist_kit.launcher.messages import Exited, Listening, NotStarted, Progress, Said
from tfdist_kit.launcher.output.board import Board, Row
from tfdist_kit.launcher.output.console import Console
from tfdist_kit.launcher.output.status_lines import MOST_LINES, LiveView

WAIT = """\
import os, time
print("hello from", os.environ["TFDIST_RANK"])
while not os.path.exists("go"): time.sleep(0.01)
print("bye from", os.environ["TFDIST_RANK"])
"""


def run_of(terminal: Terminal) -> None:
    terminal.read_until(lambda: len(terminal.status()) == 2)


def assert_clean(terminal: Terminal) -> None:
    """No status line is left, and the terminal is as it was."""
    assert terminal.status() == []
    assert_as_it_was(terminal)


def assert_as_it_was(terminal: Terminal) -> None:
    assert not terminal.screen.cursor.hidden
    assert terminal.screen.cursor.x == 0
    assert terminal.modes_after == terminal.modes_before
    assert not re.search(rb"\x1b\[\?", terminal.raw)  # no mode was ever changed


def test_a_line_per_rank_stands_below_the_log_and_goes(tmp_path: Path) -> None:
    with Terminal("run", script(tmp_path, WAIT), folder=tmp_path) as terminal:
        terminal.read_until(lambda: all("running" in line for line in terminal.status() or [""]))
        assert terminal.lines()[-2:] == terminal.status()
        for rank, line in enumerate(terminal.status()):
            assert re.fullmatch(
                rf"rank {rank} \(worker:{rank}\) +running +output \d+ s ago +\d+ MiB", line
            )
        (tmp_path / "go").touch()
        assert terminal.finish() == 0
    *log, done = [line for line in terminal.lines() if not line.endswith("logs in")]
    assert sorted(line for line in log if line[0] == "[") == [
        "[rank 0] bye from 0",
        "[rank 0] hello from 0",
        "[rank 1] bye from 1",
        "[rank 1] hello from 1",
    ]
    assert "done: 2 workers" in "\n".join([*log, done])
    assert_clean(terminal)


def test_no_line_of_the_log_is_torn_or_lost(tmp_path: Path) -> None:
    name = script(
        tmp_path,
        "import os, time\n"
        "for n in range(300):\n"
        "    print(n, 'x' * 60)\n"
        "    if n % 10 == 0: time.sleep(0.05)\n",
    )
    with Terminal("run", name, folder=tmp_path) as terminal:
        run_of(terminal)
        assert terminal.finish() == 0
    for rank in range(2):
        mine = [line for line in terminal.lines() if line.startswith(f"[rank {rank}]")]
        assert mine == [f"[rank {rank}] {n} {'x' * 60}" for n in range(300)]
    assert_clean(terminal)


def test_ctrl_c(tmp_path: Path) -> None:
    with Terminal("run", script(tmp_path, WAIT), folder=tmp_path) as terminal:
        run_of(terminal)
        terminal.press(b"\x03")
        assert terminal.finish() == 130
    assert_clean(terminal)


def test_a_killed_worker(tmp_path: Path) -> None:
    with Terminal("run", script(tmp_path, WAIT), folder=tmp_path) as terminal:
        run_of(terminal)
        [pid] = [pid for pid in terminal.living() if is_rank(pid, 1)]
        os.kill(pid, signal.SIGKILL)
        assert terminal.finish() == 137
    assert "was killed by SIGKILL" in "".join(terminal.lines())  # the terminal cuts that line
    assert_clean(terminal)


def is_rank(pid: int, rank: int) -> bool:
    return f"TFDIST_RANK={rank}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")


def test_a_killed_launcher_leaves_a_usable_terminal(tmp_path: Path) -> None:
    with Terminal("run", script(tmp_path, WAIT), folder=tmp_path) as terminal:
        run_of(terminal)
        terminal.process.kill()
        assert terminal.finish() == -signal.SIGKILL
        terminal.assert_nothing_lives()
    assert len(terminal.status()) == 2
    assert_as_it_was(terminal)


def test_a_launcher_that_fails_leaves_a_clean_terminal(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(_FAILS)
    env = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    with Terminal("run", script(tmp_path, WAIT), folder=tmp_path, env=env) as terminal:
        run_of(terminal)
        (tmp_path / "break").touch()
        assert terminal.finish() == 1
    assert any("RuntimeError: broken" in line for line in terminal.lines())
    assert_clean(terminal)


_FAILS = """\
import os, sys
if "TFDIST_RANK" not in os.environ:
    from tfdist_kit.launcher.network import ports
    def listening(numbers, pid):
        if os.path.exists("break"): raise RuntimeError("broken")
    ports.listening = listening
"""


@pytest.mark.parametrize("terminal_is", ["coloured", "plain"])
def test_colours(tmp_path: Path, terminal_is: str) -> None:
    env = {"NO_COLOR": "1" if terminal_is == "plain" else ""}
    name = script(tmp_path, WAIT + "raise SystemExit(3)")
    with Terminal("run", name, folder=tmp_path, env=env) as terminal:
        run_of(terminal)
        (tmp_path / "go").touch()
        terminal.finish()
    assert bool(re.search(rb"\x1b\[[\d;]+m", terminal.raw)) == (terminal_is == "coloured")


@pytest.mark.parametrize(
    ("args", "env", "background"),
    [
        (["--no-live"], {}, False),
        ([], {"TERM": "dumb"}, False),
        ([], {}, True),
    ],
    ids=["not wished", "dumb", "background"],
)
def test_plain_lines(
    tmp_path: Path, args: list[str], env: dict[str, str], background: bool
) -> None:
    name = script(tmp_path, "import time\nprint('hello', flush=True)\ntime.sleep(0.8)")
    command = ["run", *args, name]
    with Terminal(*command, folder=tmp_path, env=env, background=background) as terminal:
        assert terminal.finish() == 0
    assert not re.search(rb"\x1b\[[^m]*[A-Za-ln-z]", terminal.raw)


def test_there_is_no_status_in_a_pipe(tmp_path: Path) -> None:
    name = script(tmp_path, "import time\nprint('hello', flush=True)\ntime.sleep(0.8)")
    result = tfdist("run", "--live", name, folder=tmp_path, env={"TERM": "xterm"})
    assert "\x1b" not in result.out + result.err


def test_a_terminal_that_stands_still_does_not_hold_up_the_launcher(tmp_path: Path) -> None:
    name = script(tmp_path, "while True: print('x' * 70)")
    with Terminal("run", "--timeout", "1", name, folder=tmp_path) as terminal:
        begin = time.monotonic()
        assert terminal.process.wait(60) == 124  # nobody has read a byte
        assert time.monotonic() - begin < 20


def test_a_narrower_terminal_loses_no_line_of_the_log(tmp_path: Path) -> None:
    with Terminal("run", script(tmp_path, WAIT), folder=tmp_path, columns=80) as terminal:
        run_of(terminal)
        terminal.resize(40)
        (tmp_path / "go").touch()
        assert terminal.finish() == 0
    log = [line for line in terminal.lines() if line.startswith("[rank ")]
    assert len(log) == 4


@pytest.fixture
def terminal_fd() -> Iterator[int]:
    master, slave = pty.openpty()
    yield slave
    os.close(master)
    os.close(slave)


def board_of(ranks: int) -> Board:
    board = Board()
    board.begin([f"worker:{rank}" for rank in range(ranks)])
    return board


def drawn(view: LiveView) -> str:
    deadline = time.monotonic() + 10
    while not (text := view.draw()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return text.decode()


def test_many_ranks_on_a_small_terminal(terminal_fd: int) -> None:
    termios.tcsetwinsize(terminal_fd, (20, 30))  # type: ignore[attr-defined, unused-ignore]
    board = board_of(40)
    view = LiveView(board, terminal_fd, colour=False)
    lines = drawn(view).splitlines()
    assert len(lines) == 10 <= MOST_LINES
    assert lines[-1] == "and 31 more ranks"
    assert all(len(line) < 30 for line in lines)
    assert view.erase().decode() == "\r\x1b[10A\x1b[J"
    assert view.erase() == b""


@pytest.mark.parametrize("columns", [1, 2, 10, 17, 18, 19, 30])
def test_every_line_ends_however_narrow_the_terminal_is(terminal_fd: int, columns: int) -> None:
    termios.tcsetwinsize(terminal_fd, (20, columns))  # type: ignore[attr-defined, unused-ignore]
    text = drawn(LiveView(board_of(40), terminal_fd, colour=False))
    assert text.endswith("\n")
    assert text.count("\n") == 10
    assert all(len(line) < max(2, columns) for line in text.splitlines())


def test_nothing_is_drawn_twice(terminal_fd: int) -> None:
    view = LiveView(board_of(1), terminal_fd, colour=False)
    assert drawn(view) == "rank 0 (worker:0)  waiting\n"
    assert view.draw() == b""


class Unlucky(LiveView):
    def draw(self) -> bytes:
        raise RuntimeError("no luck")


def test_status_lines_that_fail_do_not_stop_the_log(
    terminal_fd: int, caplog: pytest.LogCaptureFixture
) -> None:
    reader, writer = os.pipe()
    console = Console(Unlucky(board_of(1), terminal_fd, colour=False))
    console.write(writer, b"one\n")
    console.write(writer, b"two\n")
    console.close(5)
    os.close(writer)
    with open(reader, "rb") as file:
        assert file.read() == b"one\ntwo\n"
    assert "no luck" in caplog.text


def test_a_rank_that_has_written_nothing(terminal_fd: int) -> None:
    board = board_of(1)
    board.started(0, os.getpid())
    text = drawn(LiveView(board, terminal_fd, colour=False))
    assert re.fullmatch(r"rank 0 \(worker:0\)  starting +no output yet  \d+ MiB\n", text)


def test_what_the_board_knows() -> None:
    board = board_of(3)
    assert board.rows()[0] == Row(0, "worker:0", "waiting")
    board.started(0, 77)
    board.started(1, 78)
    assert board.rows()[0] == Row(0, "worker:0", "starting", 77, None, None)
    board.note(Said(0, "running"))
    board.note(Said(1, "joining"))
    board.note(NotStarted(2))
    board.heard(0, 9.0)
    board.note(Progress(0, 12))
    board.note(Progress(0, None))
    assert board.rows()[0] == Row(0, "worker:0", "running", 77, 12, 9.0)
    assert [row.state for row in board.rows()] == ["running", "joining", "not started"]
    board.note(Listening(0))
    board.note(Exited(1, -9))
    assert [row.state for row in board.rows()] == ["joined", "SIGKILL", "not started"]
    board.note(Exited(0, 0))
    board.note(Exited(2, 3))
    assert [row.state for row in board.rows()] == ["done", "SIGKILL", "exit 3"]
    assert [row.pid for row in board.rows()] == [None] * 3
    assert board.rows()[0].step == 12
    board.begin(["worker:0"])
    assert board.rows() == [Row(0, "worker:0")]
