"""The console: what is shown, written by a thread of its own.

    write(fd, block) -> bounded queue -> thread -> the terminal
                        status lines -> erased before a block, drawn again below it

A terminal that does not read (Ctrl-S, a pager) slows the workers down and never the supervisor:
the queue is bounded, whoever reads the workers stops while it `is_full`, and status lines are
never queued but asked for when they can be drawn.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from itertools import groupby
from operator import itemgetter
from typing import Protocol

_QUEUE_BYTES = 4 * 1024 * 1024
_TURN_BYTES = 256 * 1024
_RETRY = 0.01


class StatusLines(Protocol):
    """Lines that stand below everything else on one terminal.

    Attributes:
        fd: The terminal's descriptor.
        interval: How often they are drawn anew when nothing else is written, in seconds.
    """

    fd: int
    interval: float

    def covers(self, fd: int) -> bool:
        """Whether what is written to `fd` appears on the same terminal."""

    def erase(self) -> bytes:
        """What removes the lines that are drawn now; nothing if there are none."""

    def draw(self) -> bytes:
        """What draws the lines, in place of those that are drawn now."""

    def forget(self) -> None:
        """Somebody else may have used the terminal: leave what is drawn where it is."""


class Console:
    """Writes blocks of whole lines to file descriptors, in order, from a thread of its own.

    Attributes:
        trouble: Why some of it could not be written, if so.

    Args:
        status: Lines to keep below everything else.
    """

    def __init__(self, status: StatusLines | None = None) -> None:
        self.trouble: OSError | None = None
        self._status = status
        self._queue: deque[tuple[int, bytes]] = deque()
        self._size = 0
        self._changed = threading.Condition()
        self._closing = False
        self._broken: set[int] = set()
        self._thread = threading.Thread(target=self._write_all, name="tfdist-console", daemon=True)
        self._thread.start()

    @property
    def is_full(self) -> bool:
        """Whether the terminal is so far behind that no more should be read."""
        return self._size >= _QUEUE_BYTES

    def write(self, fd: int, block: bytes) -> None:
        """Queue `block` for `fd`; bytes that are not UTF-8 become replacement characters."""
        if not block:
            return
        if not block.isascii():
            block = block.decode("utf-8", "replace").encode()
        with self._changed:
            self._queue.append((fd, block))
            self._size += len(block)
            self._changed.notify()

    def say(self, text: str) -> None:
        """Queue lines of our own for stderr."""
        lines = "".join(f"tfdist: {line}\n" for line in text.splitlines())
        self.write(2, lines.encode("utf-8", "replace"))

    def close(self, timeout: float | None) -> None:
        """Write what is queued, remove the status lines and stop; give up after `timeout` s."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout)

    # In the thread

    def _write_all(self) -> None:
        while (blocks := self._next_blocks()) is not None:
            for fd, group in groupby(blocks, itemgetter(0)):
                self._write_block(fd, b"".join(block for _, block in group))
            self._draw_status()
            with self._changed:
                self._size -= sum(len(block) for _, block in blocks)
        if self._status is not None:
            self._write_one(self._status.fd, self._status.erase())

    def _draw_status(self) -> None:
        if self._status is not None:
            try:
                block = self._status.draw()
            except Exception:  # a comfort; the log goes on without it
                logging.getLogger(__name__).exception("the status lines cannot be drawn")
                self._status = None
            else:
                self._write_one(self._status.fd, block)

    def _next_blocks(self) -> list[tuple[int, bytes]] | None:
        """Wait for the next blocks; none when the status lines are due, None at the end."""
        with self._changed:
            if not self._queue and not self._closing:
                self._wait()
            if not self._queue and self._closing:
                return None
            taken, size = [], 0
            while self._queue and size < _TURN_BYTES:
                taken.append(self._queue.popleft())
                size += len(taken[-1][1])
            return taken

    def _wait(self) -> None:
        if self._status is None:
            self._changed.wait()
            return
        due = time.monotonic() + self._status.interval
        self._changed.wait(self._status.interval)
        if time.monotonic() > due + 1.0:  # this process was stopped (Ctrl-Z) and goes on now
            self._status.forget()

    def _write_block(self, fd: int, block: bytes) -> None:
        if self._status is not None and self._status.covers(fd):
            block = self._status.erase() + block
        self._write_one(fd, block)

    def _write_one(self, fd: int, block: bytes) -> None:
        view = memoryview(block)
        while view and fd not in self._broken:
            try:
                view = view[os.write(fd, view) :]
            except BlockingIOError:
                time.sleep(_RETRY)  # somebody made the terminal non-blocking
            except OSError as error:  # the files still get everything
                self._broken.add(fd)
                if not isinstance(error, BrokenPipeError):  # who leaves does not want to be told
                    self.trouble = error
