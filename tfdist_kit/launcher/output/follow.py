"""The logs of a run, read from its folder while it goes on or afterwards.

    attempt_K/rank_R/*.log -> one Tail per file, as they appear -> whole lines with rank prefixes

A new attempt's files are taken up as they come; those of earlier attempts have ended by then.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from tfdist_kit.launcher.output import watch
from tfdist_kit.launcher.output.lines import Lines, prefixed, rank_prefix
from tfdist_kit.launcher.output.quiet import Quiet

POLL = 0.1
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Wish:
    """What of the logs is wanted.

    Attributes:
        ranks: The ranks, or None for all.
        streams: ``stdout``, ``stderr`` or both.
        quiet_tf: Whether TensorFlow's start-up notes are left out.
        colour: Whether prefixes are coloured.
    """

    ranks: Collection[int] | None = None
    streams: tuple[str, ...] = watch.STREAMS
    quiet_tf: bool = False
    colour: bool = False


@dataclass
class Tail:
    """One log file that is being read."""

    file: BinaryIO
    prefix: bytes
    quiet: Quiet | None
    lines: Lines = field(default_factory=Lines)

    def read(self) -> bytes:
        """What has come since, in whole lines; an end is reached even while somebody writes."""
        data = self.file.read(_CHUNK)
        return self._shown(self.lines.feed(data, time.monotonic())) if data else b""

    def close(self) -> bytes:
        """The last line, if it has no end."""
        self.file.close()
        return self._shown(self.lines.flush())

    def _shown(self, whole: bytes) -> bytes:
        return prefixed(self.quiet.filter(whole) if self.quiet else whole, self.prefix)


class Follower:
    """Reads all logs of a run.

    Args:
        folder: The run folder.
        wish: What of them is wanted.
        write: Is given blocks of whole lines.

    Raises:
        UsageError: `folder` is no run folder.
    """

    def __init__(self, folder: Path, wish: Wish, write: Callable[[bytes], None]) -> None:
        plan = watch.plan_of(folder)
        every = range(len(plan["workers"]))
        self._ranks = [rank for rank in every if wish.ranks is None or rank in wish.ranks]
        self._folder = folder
        self._wish = wish
        self._write = write
        self._run = _identity(folder)
        self._attempt = -1
        self._tails: dict[tuple[int, str], Tail] = {}

    def follow(self) -> None:
        """Write everything, and what comes, until the run is over."""
        while True:
            is_over = self._is_over()
            any_new = self._read_attempts()
            if is_over:
                break
            if not any_new:
                time.sleep(POLL)
        self._close()

    def write_all(self) -> None:
        """Write everything that is there now."""
        self._read_attempts()
        self._close()

    def _is_over(self) -> bool:
        if not watch.is_live(self._folder):
            return True
        found = _identity(self._folder)
        self._run = self._run or found  # its first attempt may only now begin
        return found != self._run

    def _read_attempts(self) -> bool:
        """Read the current attempt's files, and those of any later one; tells of anything new."""
        any_new = self._read_files()
        for attempt in watch.attempts(self._folder):
            if attempt > self._attempt:
                self._read_files()  # the last that came before the new attempt began
                self._close()
                self._attempt = attempt
                if attempt:
                    self._write(f"tfdist: attempt {attempt}\n".encode())
                any_new = self._read_files() or any_new
        return any_new

    def _read_files(self) -> bool:
        self._open_new_files()
        any_new = False
        for tail in self._tails.values():
            for _ in range(self._chunks(tail)):
                block = tail.read()
                self._write(block)
                any_new = any_new or bool(block)
        return any_new

    @staticmethod
    def _chunks(tail: Tail) -> int:
        """How many reads what is there now takes."""
        size = os.fstat(tail.file.fileno()).st_size - tail.file.tell()
        return -(-size // _CHUNK)

    def _open_new_files(self) -> None:
        for rank in self._ranks:
            for stream in self._wish.streams:
                path = self._folder / f"attempt_{self._attempt}" / f"rank_{rank}" / f"{stream}.log"
                if (rank, stream) not in self._tails and path.exists():
                    prefix = rank_prefix([rank], colour=self._wish.colour)
                    quiet = Quiet() if self._wish.quiet_tf else None
                    file = path.open("rb", buffering=0)
                    self._tails[rank, stream] = Tail(file, prefix, quiet)

    def _close(self) -> None:
        for tail in self._tails.values():
            self._write(tail.close())
        self._tails = {}


def _identity(folder: Path) -> int:
    """Changes when another run takes the folder over, and with no attempt of the same run."""
    try:
        return (folder / "attempt_0").stat().st_ino
    except OSError:
        return 0
