"""How a process leaves once it is told to go: politely, soon, and with a code that stays.

    SystemExit in the main thread -> the program's own `finally` blocks -> atexit functions
        -> output is flushed -> os._exit

Python's and TensorFlow's teardown after that takes 1 to 8 seconds and serves nobody; a second
signal in it would change the code. A program that does not let go in time is ended all the same.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import NoReturn

from tfdist_kit.launcher.inside import leaving

_FLUSH_SECONDS = 0.2
_kept: list[BaseException] = []
"""What unwinds the program, so that its frames stay: to end what they hold, such as an iterator
of tf.data, can take a minute."""
_log = logging.getLogger(__name__)


class Leaving:
    """The end of this process.

    Args:
        code: What it leaves with.
        within: How many seconds the program has to unwind.
        exit_fn: What else is to be done first; may leave by itself, with a code of its own.
        signum: A signal whose Python handler calls `if_asked`.
    """

    def __init__(
        self, code: int, within: float, exit_fn: Callable[[], object] | None, signum: int
    ) -> None:
        self._code = code
        self._within = within
        self._exit_fn = exit_fn
        self._signum = signum
        self._watchdog: threading.Timer | None = None
        self._unwinds = False

    @property
    def has_begun(self) -> bool:
        """Whether this process is on its way out."""
        return self._watchdog is not None

    def now(self) -> NoReturn:
        """Leave; to be called in the main thread.

        Raises:
            SystemExit: Always.
        """
        self._unwinds = True
        self._set_deadline()
        if self._exit_fn is not None:
            self._call_exit_fn(self._exit_fn)
        atexit.register(self._at_exit)
        leave = SystemExit(self._code)
        _kept.append(leave)
        raise leave

    def from_thread(self) -> None:
        """Leave; to be called in any other thread."""
        if not self.has_begun:
            self._set_deadline()
            main = threading.main_thread().ident
            assert main is not None
            signal.pthread_kill(main, self._signum)  # a real one, which wakes it from a sleep

    def if_asked(self) -> None:
        """Leave if a thread has asked for it; what the signal's handler calls."""
        if self.has_begun and not self._unwinds:
            self.now()

    def _call_exit_fn(self, exit_fn: Callable[[], object]) -> None:
        try:
            exit_fn()
            _log.warning("exit_fn did not exit: leaving with code %d", self._code)
        except SystemExit as leave:
            self._code = _code_of(leave)
        except Exception:
            _log.exception("exit_fn raised: leaving with code %d", self._code)

    def _set_deadline(self) -> None:
        if self._watchdog is None:
            self._watchdog = threading.Timer(self._within, self._end)
            self._watchdog.daemon = True
            self._watchdog.start()

    def _at_exit(self) -> None:
        """The first of the atexit functions: run the others, and be gone."""
        atexit.unregister(self._at_exit)
        leaving.leave(self._code)

    def _end(self) -> None:
        flush = threading.Thread(target=_flush, daemon=True)
        flush.start()
        flush.join(_FLUSH_SECONDS)
        os._exit(self._code)


def _code_of(leave: SystemExit) -> int:
    """The code with which Python would leave; a text is written, as Python does."""
    if leave.code is None:
        return 0
    if isinstance(leave.code, int):
        return leave.code & 0xFF
    print(leave.code, file=sys.stderr)
    return 1


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
