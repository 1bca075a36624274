r"""The workers' output: every byte into a file per rank and stream, whole lines to be shown.

pipe -> StreamLog.feed -> its log file (bytes as they come)
                       -> Lines (whole lines, `\r` resolved) -> a Shown -> the console
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Protocol

MAX_LINE = 64 * 1024
PROGRESS_INTERVAL = 5.0
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


class Shown(Protocol):
    """What becomes of a stream's lines."""

    def show(self, whole: bytes, now: float) -> None:
        """Take a block of whole lines."""

    def close(self, now: float) -> None:
        """No more will come."""


class StreamLog:
    """One stream of one worker: its log file, and its lines on the console.

    Args:
        path: The log file.
        shown: Where whole lines go; None for a rank that is not shown.
    """

    def __init__(self, path: Path, shown: Shown | None) -> None:
        self._file = path.open("wb", buffering=0)
        self._shown = shown
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
            if self._shown is not None:
                now = time.monotonic()
                self._shown.show(self._lines.feed(data, now), now)

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
        if self._shown is not None:
            now = time.monotonic()
            self._shown.show(self._lines.flush(), now)
            self._shown.close(now)


def prefixed(whole: bytes, prefix: bytes) -> bytes:
    """Put `prefix` before each line of a block of whole lines."""
    return prefix + whole[:-1].replace(b"\n", b"\n" + prefix) + b"\n" if whole else b""


def timestamp() -> bytes:
    """The time of day, to the millisecond, and a space."""
    now = time.time()
    clock = time.strftime("%H:%M:%S", time.localtime(now))
    return f"{clock}.{int(now % 1 * 1000):03d} ".encode()


def rank_prefix(ranks: Iterable[int], *, colour: bool) -> bytes:
    """``[rank 0] `` in the rank's own colour, or ``[ranks 0-3,6] `` for several."""
    [first, *more] = sorted(ranks)
    if more:
        return f"[ranks {spans([first, *more])}] ".encode()
    if colour:
        return f"\x1b[{_COLOURS[first % len(_COLOURS)]}m[rank {first}]\x1b[0m ".encode()
    return f"[rank {first}] ".encode()


def spans(ranks: Iterable[int]) -> str:
    """Sorted ranks in short: ``0-3,6``."""
    runs = [
        [rank for _, rank in run]
        for _, run in groupby(enumerate(ranks), key=lambda pair: pair[1] - pair[0])
    ]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def wants_colour(fd: int, no_color: str | None) -> bool:
    """Whether `fd` is a terminal on which colours are welcome."""
    return os.isatty(fd) and not no_color
