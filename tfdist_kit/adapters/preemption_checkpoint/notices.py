"""What tells this process to go: a signal, or a watcher that is asked once a second.

    signal -> Python's handler in C -> wake-up descriptor -> thread }
    watcher function, in a thread of its own                        } -> told(reason)

The wake-up descriptor is written the moment a signal comes, also while the main thread is deep in
native code, where no handler in Python comes to run. `told` is called in a thread, and may be
called more than once.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from types import FrameType
from typing import Any

from tfdist_kit._errors import UsageError

POLL_SECONDS = 1.0
_UNCATCHABLE = (signal.SIGKILL, signal.SIGSTOP)
_MOST_CODE = 255
_log = logging.getLogger(__name__)


def checked(signums: Any) -> tuple[int, ...]:
    """Signals that can be a notice.

    Raises:
        UsageError: There is none, or one that no process can catch.
    """
    if not isinstance(signums, Iterable):
        raise UsageError(f"signals is {signums!r}", hint="give a list, as in (signal.SIGTERM,)")
    found = tuple(signums)
    if not found:
        raise UsageError("signals is empty", hint="leave it out for SIGTERM")
    for signum in found:
        if signum not in signal.valid_signals() or signum in _UNCATCHABLE:
            raise UsageError(
                f"signals has {signum!r}, which no process can catch",
                hint="use signal.SIGTERM, signal.SIGUSR1 and the like",
            )
    return found


def checked_code(code: Any) -> int:
    """An exit code that is not that of success.

    Raises:
        UsageError: It is none.
    """
    if not isinstance(code, int) or isinstance(code, bool) or not 1 <= code <= _MOST_CODE:
        raise UsageError(f"exit_code is {code!r}", hint="give a number from 1 to 255")
    return code


class Signals:
    """Catches signals for as long as it is open; to be made in the main thread.

    Args:
        signums: Which.
        told: What is called, in a thread, with the signal's name.
        in_main: What Python's handler calls, in the main thread, when a signal comes.
    """

    def __init__(
        self, signums: Sequence[int], told: Callable[[str], None], in_main: Callable[[], None]
    ) -> None:
        self._signums = tuple(signums)
        self._told = told
        self._in_main = in_main
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._before = {signum: signal.getsignal(signum) for signum in self._signums}
        for signum in self._signums:
            signal.signal(signum, self._on_signal)
        self._wakeup = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._masks = threading.local()
        os.register_at_fork(
            before=self._hold_back, after_in_parent=self._let_through, after_in_child=self._forget
        )
        threading.Thread(target=self._listen, name="tfdist-signals", daemon=True).start()

    def catch(self) -> None:
        """Catch them again, after somebody else has begun to."""
        for signum in self._signums:
            signal.signal(signum, self._on_signal)

    def close(self) -> None:
        """Let the program have its signals back."""
        if self._writer.fileno() < 0:
            return
        for signum, before in self._before.items():
            if signal.getsignal(signum) == self._on_signal and before is not None:
                signal.signal(signum, before)
        signal.set_wakeup_fd(self._wakeup)
        self._writer.close()

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        """Tell it from here where another, such as asyncio, has put its own descriptor in place."""
        current = signal.set_wakeup_fd(-1)
        with contextlib.suppress(OSError, ValueError):  # it was closed
            signal.set_wakeup_fd(current)
        if current != self._writer.fileno():
            with contextlib.suppress(OSError):  # full of notices, or closed
                self._writer.send(bytes([signum]))
        self._in_main()

    def _listen(self) -> None:
        while caught := self._reader.recv(1024):
            for signum in caught:
                if signum in self._signums:
                    self._told(signal.Signals(signum).name)
                elif self._wakeup >= 0:
                    os.write(self._wakeup, bytes([signum]))
        self._reader.close()

    # A forked process shares the descriptor, but its signals are its own: none may come before it
    # knows that.

    def _hold_back(self) -> None:
        self._masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, self._signums)

    def _let_through(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._masks.before)

    def _forget(self) -> None:
        if self._writer.fileno() >= 0:
            signal.set_wakeup_fd(-1)
            for signum in self._signums:
                if signal.getsignal(signum) == self._on_signal:
                    signal.signal(signum, signal.SIG_DFL)
        self._let_through()


class Watcher:
    """Asks a function once a second, until it says that it is time to go.

    Args:
        function: Returns whether it is; what it raises is told once, and it is asked again.
        told: What is called, in a thread.
    """

    def __init__(self, function: Callable[[], object], told: Callable[[str], None]) -> None:
        self._function = function
        self._told = told
        self._closed = threading.Event()
        self._problems: set[str] = set()
        threading.Thread(target=self._watch, name="tfdist-watcher", daemon=True).start()

    def close(self) -> None:
        """Ask no more."""
        self._closed.set()

    def _watch(self) -> None:
        due = time.monotonic()
        while not self._closed.wait(max(0.0, due - time.monotonic())):
            due = time.monotonic() + POLL_SECONDS
            if self._says_so():
                self._told("the termination watcher")
                return

    def _says_so(self) -> bool:
        try:
            return bool(self._function())
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            if problem not in self._problems and len(self._problems) < 10:
                self._problems.add(problem)
                _log.warning("termination_watcher_fn raised, and is asked again: %s", problem)
            return False
