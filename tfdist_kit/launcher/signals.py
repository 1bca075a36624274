"""The launcher's signals as bytes that a loop can read; a handler itself does nothing.

They are caught for the whole of a run, between its attempts too: no signal falls in between.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator

NOTICES = (signal.SIGUSR1, signal.SIGUSR2)
"""What a scheduler sends some time before it ends a run: they end nothing by themselves."""
HANDLED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, *NOTICES)
_MANY = 4096
_LONGEST_POLL = 3600.0


@contextlib.contextmanager
def as_bytes() -> Iterator[int]:
    """Turn `HANDLED_SIGNALS` into bytes on a descriptor; one that is ignored stays ignored."""
    reader, writer = socket.socketpair()
    reader.setblocking(False)
    writer.setblocking(False)
    heeded = [name for name in HANDLED_SIGNALS if signal.getsignal(name) != signal.SIG_IGN]
    before = {name: signal.signal(name, lambda *_: None) for name in heeded}
    wakeup = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    try:
        yield reader.fileno()
    finally:
        signal.set_wakeup_fd(wakeup)
        for name, handler in before.items():
            signal.signal(name, handler)
        reader.close()
        writer.close()


def received(fd: int) -> list[int]:
    """The signals that have come since the last look, oldest first."""
    try:
        return [signum for signum in os.read(fd, _MANY) if signum in HANDLED_SIGNALS]
    except BlockingIOError:
        return []


def wait(fd: int, seconds: float, on_quit: Callable[[], None]) -> int | None:
    """Wait that long, or until a signal comes that ends a run; gives the signal.

    Args:
        fd: Where signals are read (see `as_bytes`).
        seconds: How long to wait.
        on_quit: Is called for each SIGQUIT, which ends no run.
    """
    ends = time.monotonic() + seconds
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    while True:
        left = max(0.0, ends - time.monotonic())
        came = received(fd) if poll.poll(1000 * min(left, _LONGEST_POLL)) else []
        for signum in came:
            if signum != signal.SIGQUIT:
                return signum
            on_quit()
        if not left:
            return None
