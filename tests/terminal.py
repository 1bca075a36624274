"""Runs ``tfdist`` on a terminal of its own, and reads the screen as a person would."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pyte

from tests.commands import DEADLINE, TFDIST, Command

_ON_TERMINAL = """\
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
if sys.argv.pop(1) == "background" and (pid := os.fork()):
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
os.getpid() == os.getsid(0) or os.setpgid(0, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


class Terminal(Command):
    """A command whose stdin, stdout and stderr are one terminal.

    Args:
        args: What follows ``tfdist``.
        folder: Its working directory.
        env: Variables on top of this process' own.
        columns: The terminal's width.
        background: Whether it is not the terminal's foreground job.
    """

    def __init__(
        self,
        *args: str | Path,
        folder: Path,
        env: dict[str, str] | None = None,
        columns: int = 80,
        background: bool = False,
    ) -> None:
        super().__init__(args, folder, {"TERM": "xterm-256color", "NO_COLOR": "", **(env or {})})
        self.columns = columns
        self.ground = "background" if background else "foreground"
        self.raw = b""
        self.screen = pyte.HistoryScreen(columns, 24, history=100_000)
        self._stream = pyte.ByteStream(self.screen)

    def start(self, env: dict[str, str]) -> subprocess.Popen[str]:
        self.master, slave = pty.openpty()
        self.resize(self.columns)
        self.modes_before = termios.tcgetattr(self.master)
        command = [sys.executable, "-c", _ON_TERMINAL, self.ground, *TFDIST, *map(str, self.args)]
        try:
            return subprocess.Popen(
                command,
                cwd=self.folder,
                env=env,
                stdin=slave,
                stdout=slave,
                stderr=slave,
                start_new_session=True,
                text=True,
            )
        finally:
            os.close(slave)

    def __enter__(self) -> Terminal:
        super().__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        os.close(self.master)

    def resize(self, columns: int, rows: int = 24) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def lines(self) -> list[str]:
        """Everything from the top of the scrollback to the cursor."""
        above = [
            "".join(row[x].data for x in range(self.columns)) for row in self.screen.history.top
        ]
        shown = self.screen.display[: self.screen.cursor.y + (self.screen.cursor.x > 0)]
        return [line.rstrip() for line in [*above, *shown]]

    def status(self) -> list[str]:
        """The status lines that are on the screen."""
        return [line for line in self.lines() if line.startswith("rank ")]

    def read_until(self, condition: Callable[[], bool]) -> None:
        """Read what the terminal is sent until `condition` holds."""
        deadline = time.monotonic() + DEADLINE
        while not condition():
            assert time.monotonic() < deadline, self.lines()
            assert self._read(), self.lines()

    def finish(self) -> int:
        """Read to the end and give the exit code."""
        while self._read():
            pass
        self.modes_after = termios.tcgetattr(self.master)
        return self.process.wait(DEADLINE)

    def _read(self) -> bool:
        if not select.select([self.master], [], [], 0.05)[0]:
            return True
        try:
            data = os.read(self.master, 65536)
        except OSError:  # nobody has the terminal open any more
            return False
        self.raw += data
        self._stream.feed(data)
        return True
