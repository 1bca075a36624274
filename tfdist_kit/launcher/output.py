r"""The workers' output: every byte into a file per rank and stream, whole lines on the terminal.

    pipe -> StreamLog.feed -> its log file (bytes as they come)
                           -> Lines (whole lines, `\r` resolved) -> prefix -> Console

The console writes from a thread of its own behind a bounded queue, so that a terminal that does
not read (Ctrl-S, a pager) slows the workers down and never the supervisor.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from pathlib import Path

MAX_LINE = 64 * 1024
PROGRESS_INTERVAL = 5.0
_QUEUE_BYTES = 4 * 1024 * 1024
_COLOURS = (36, 33, 32, 35, 34, 31)


class Lines:
    """Cuts a stream of bytes into whole lines as a terminal would show them.

    A line that is redrawn with carriage returns counts once, as it last stood; while it is still
    being redrawn, its newest state is given out every `PROGRESS_INTERVAL` seconds. A line of more
    than `MAX_LINE` bytes is given out in pieces, cut between characters.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._shown_at = 0.0

    def feed(self, data: bytes, now: float) -> bytes:
        """Take bytes in; give the lines that are now whole, each with its newline."""
        done, newline, rest = (self._rest + data).rpartition(b"\n")
        if b"\r" in done:
            done = b"\n".join(map(_as_shown, done.split(b"\n")))
        whole = done + newline
        if b"\r" in rest:
            before, _, newest = rest.rpartition(b"\r")
            drawn = _as_shown(before)
            rest = newest or drawn + b"\r"  # what comes next overwrites it
            if drawn and now - self._shown_at >= PROGRESS_INTERVAL:
                self._shown_at = now
                whole += drawn + b"\n"
        while len(rest) > MAX_LINE:
            cut = _character_start(rest, MAX_LINE)
            whole += rest[:cut] + b"\n"
            rest = rest[cut:]
        self._rest = rest
        return whole

    def flush(self) -> bytes:
        """Give what is left at the end of the stream, as a line."""
        rest, self._rest = _as_shown(self._rest), b""
        return rest + b"\n" if rest else b""


def _as_shown(line: bytes) -> bytes:
    """What a terminal shows of a line with carriage returns in it."""
    return next((part for part in reversed(line.split(b"\r")) if part), b"")


def _character_start(data: bytes, index: int) -> int:
    """The nearest index at or before `index` at which a UTF-8 character starts."""
    for back in range(4):
        if data[index - back] & 0xC0 != 0x80:
            return index - back
    return index


class Console:
    """Writes blocks of whole lines to file descriptors, in order, from a thread of its own.

    Attributes:
        trouble: Why some of it could not be written, if so.
    """

    def __init__(self) -> None:
        self.trouble: OSError | None = None
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
        """Write what is queued and stop; give up after `timeout` seconds."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout)

    def _write_all(self) -> None:
        while True:
            with self._changed:
                while not self._queue:
                    if self._closing:
                        return
                    self._changed.wait()
                fd, block = self._queue.popleft()
            self._write_one(fd, block)
            with self._changed:
                self._size -= len(block)

    def _write_one(self, fd: int, block: bytes) -> None:
        view = memoryview(block)
        while view and fd not in self._broken:
            try:
                view = view[os.write(fd, view) :]
            except BlockingIOError:
                time.sleep(0.01)  # somebody made the terminal non-blocking
            except OSError as error:  # the files still get everything
                self._broken.add(fd)
                if not isinstance(error, BrokenPipeError):  # who leaves does not want to be told
                    self.trouble = error


class StreamLog:
    """One stream of one worker: its log file, and its lines on the console.

    Args:
        path: The log file.
        console: Where whole lines go; None for a rank that is not shown.
        fd: The descriptor to which the console writes them.
        prefix: What each line starts with.
        timestamps: Whether the time comes before the prefix.
    """

    def __init__(
        self, path: Path, console: Console | None, fd: int, prefix: bytes, timestamps: bool
    ) -> None:
        self._file = path.open("wb", buffering=0)
        self._console = console
        self._fd = fd
        self._prefix = prefix
        self._timestamps = timestamps
        self._lines = Lines()
        self._file_is_broken = False

    def feed(self, data: bytes) -> None:
        """Take bytes that the worker wrote; they are shown even if they cannot be kept.

        Raises:
            OSError: The log file cannot be written; said once, and then no more.
        """
        try:
            self._keep(data)
        finally:
            if self._console is not None:
                self._show(self._lines.feed(data, time.monotonic()))

    def _keep(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view and not self._file_is_broken:
                view = view[self._file.write(view) :]
        except OSError:
            self._file_is_broken = True
            raise

    def close(self) -> None:
        """The stream has ended."""
        self._file.close()
        if self._console is not None:
            self._show(self._lines.flush())

    def _show(self, whole: bytes) -> None:
        if whole and self._console is not None:
            prefix = _timestamp() + self._prefix if self._timestamps else self._prefix
            block = prefix + whole[:-1].replace(b"\n", b"\n" + prefix) + b"\n"
            self._console.write(self._fd, block)


def _timestamp() -> bytes:
    now = time.time()
    clock = time.strftime("%H:%M:%S", time.localtime(now))
    return f"{clock}.{int(now % 1 * 1000):03d} ".encode()


def rank_prefix(rank: int, fd: int, *, plain: bool) -> bytes:
    """``[rank 0] ``, in the rank's own colour where `fd` is a terminal and it is not `plain`."""
    text = f"[rank {rank}]"
    if os.isatty(fd) and not plain:
        return f"\x1b[{_COLOURS[rank % len(_COLOURS)]}m{text}\x1b[0m ".encode()
    return f"{text} ".encode()
