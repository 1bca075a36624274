"""The terminal, lent to one worker so that it can be debugged, and taken back.

The worker's process group becomes the terminal's foreground one: what is typed goes to it, and
Ctrl-C too. The launcher stays in the background, and must not be stopped there by what it says.
"""

from __future__ import annotations

import contextlib
import os
import signal
import termios
from collections.abc import Iterator
from typing import Any

_LFLAG, _CONTROL_CHARACTERS = 3, 6


class Terminal:
    """The terminal on a descriptor, if there is one and this process has it now.

    Args:
        fd: The descriptor.
    """

    def __init__(self, fd: int = 0) -> None:
        self._fd = fd
        self._modes: list[Any] | None = None

    def lend(self, group: int) -> None:
        """Give it to a process group of this session, if it is ours to give."""
        if not self._is_ours():
            return
        self._modes = termios.tcgetattr(self._fd)
        with _undisturbed():
            termios.tcsetattr(self._fd, termios.TCSADRAIN, _for_a_worker(self._modes, self._fd))
            os.tcsetpgrp(self._fd, group)
        os.killpg(group, signal.SIGCONT)  # it may have asked for input too early

    def take_back(self) -> None:
        """Have it again, and as it was, whatever was done to it; nothing if it was not lent."""
        if self._modes is None:
            return
        with _undisturbed(), contextlib.suppress(OSError, termios.error):  # it has gone
            os.tcsetpgrp(self._fd, os.getpgrp())
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._modes)
        self._modes = None

    def _is_ours(self) -> bool:
        try:
            return os.isatty(self._fd) and os.tcgetpgrp(self._fd) == os.getpgrp()
        except OSError:  # a terminal, but not that of this session
            return False


def _for_a_worker(modes: list[Any], fd: int) -> list[Any]:
    """Without keys that stop or end it, and without stopping who writes behind."""
    changed = [*modes]
    changed[_LFLAG] &= ~termios.TOSTOP
    changed[_CONTROL_CHARACTERS] = [*modes[_CONTROL_CHARACTERS]]
    for character in (termios.VSUSP, termios.VQUIT):
        changed[_CONTROL_CHARACTERS][character] = bytes([os.fpathconf(fd, "PC_VDISABLE")])
    return changed


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Change a terminal from the background, for which the kernel would stop this process."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
