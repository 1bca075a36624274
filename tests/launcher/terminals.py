"""A terminal with ``tfdist`` on it, as a shell would start it, and what a user types."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Sequence

from tests.commands import DEADLINE, TFDIST, Command

# A shell in small: a session with a controlling terminal, the command as its foreground job.
SHELL = """\
import fcntl, os, signal, subprocess, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
def own_group():
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
before = termios.tcgetattr(0)
job = subprocess.Popen(sys.argv[1:], preexec_fn=own_group)
code = job.wait()
print("terminal given back:", os.tcgetpgrp(0) == job.pid, termios.tcgetattr(0) == before)
print("exit code:", code, flush=True)
"""


class Terminal(Command):
    """``tfdist ARGS``, or another command, in a terminal of its own.

    Attributes:
        command: What is run with the arguments.
        shown: What it has shown since it last did what `shows` waits for.
    """

    command: Sequence[str] = TFDIST

    def __enter__(self) -> Terminal:
        super().__enter__()
        return self

    def start(self, env: dict[str, str]) -> subprocess.Popen[str]:
        self.shown = ""
        self._master, slave = pty.openpty()
        try:
            return subprocess.Popen(
                [sys.executable, "-c", SHELL, *self.command, *map(str, self.args)],
                cwd=self.folder,
                env={**env, "TERM": "dumb", "NO_COLOR": "1"},
                stdin=slave,
                stdout=slave,
                stderr=slave,
                text=True,
            )
        finally:
            os.close(slave)

    def __exit__(self, *exception: object) -> None:
        os.close(self._master)
        super().__exit__(*exception)

    def types(self, text: str) -> None:
        """Press keys."""
        os.write(self._master, text.encode())

    def shows(self, pattern: str, *, press: str = "") -> None:
        """Wait until the terminal has shown `pattern`, and forget what came until then.

        Args:
            pattern: A regular expression.
            press: Keys to press again and again meanwhile, as a user does: Python's readline does
                not notice a Ctrl-C that comes just before it begins to wait.
        """
        deadline = time.monotonic() + DEADLINE
        next_press = 0.0
        while not (found := re.search(pattern, self.shown)):
            if press and time.monotonic() >= next_press:
                self.types(press)
                next_press = time.monotonic() + 2.0
            patience = 0.2 if press else DEADLINE
            if select.select([self._master], [], [], patience)[0]:
                self.shown += self._read(pattern)
            assert time.monotonic() < deadline, self._missed(pattern)
        self.shown = self.shown[found.end() :]

    def _read(self, pattern: str) -> str:
        try:
            return os.read(self._master, 4096).decode().replace("\r\n", "\n")
        except OSError:  # everybody has left
            raise AssertionError(self._missed(pattern)) from None

    def _missed(self, pattern: str) -> str:
        return f"{pattern!r} did not come: {self.shown}"
