"""The same line from several ranks, or again and again from one, shown once with who and how often.

    line -> waits up to `WINDOW` s for the other ranks to say the same -> ``[ranks 0-7] line``
         -> once more from the rank that said it last -> ``(last line repeated 12 times)``

The lines of one rank never change their order, and nothing waits longer than the window. The
clock is handed in.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter

from tfdist_kit.launcher.output.lines import rank_prefix, timestamp

WINDOW = 0.2
MAX_WAITING = 10_000

Write = Callable[[int, bytes], None]
Key = tuple[int, bytes]
_place = attrgetter("place")


@dataclass(eq=False, slots=True)
class _Entry:
    """A line that waits, or has been shown.

    Attributes:
        key: Where it goes, and its text.
        came: When it came first, in seconds.
        place: Its place among all entries.
        stamp: The time of day at which it came, if that is shown.
        counts: How often each rank said it.
        again: Whether it was the last line shown of each of these ranks already.
        gone: Whether it has been shown.
    """

    key: Key
    came: float
    place: int
    stamp: bytes
    counts: dict[int, int] = field(default_factory=dict)
    again: bool = True
    gone: bool = False


class Collapser:
    """Merges the lines of all streams.

    Args:
        write: Is given a file descriptor and a block of lines.
        colours: The file descriptors on which prefixes are coloured.
        timestamps: Whether each line starts with the time at which it came.
    """

    def __init__(self, write: Write, *, colours: Iterable[int], timestamps: bool) -> None:
        self._write = write
        self._colours = frozenset(colours)
        self._timestamps = timestamps
        self._waiting: deque[_Entry] = deque()
        self._alike: dict[Key, list[_Entry]] = {}
        self._last: dict[int, _Entry] = {}
        self._open: dict[int, set[int]] = {}
        self._place = 0

    def join(self, rank: int, fd: int) -> None:
        """The rank will write lines for `fd`."""
        self._open.setdefault(fd, set()).add(rank)

    def leave(self, rank: int, fd: int) -> None:
        """The rank writes no more for `fd`: nobody waits for it."""
        self._open[fd].discard(rank)

    def add(self, rank: int, fd: int, whole: bytes, now: float) -> None:
        """Take whole lines that `rank` wrote for `fd`."""
        stamp = timestamp() if self._timestamps else b""
        for line in whole[:-1].split(b"\n"):
            self._add_line(rank, (fd, line), now, stamp)
        if len(self._waiting) > MAX_WAITING:
            self._release(len(self._waiting) - MAX_WAITING)
        self.tick(now)

    def _add_line(self, rank: int, key: Key, now: float, stamp: bytes) -> None:
        last = self._last.get(rank)
        again = last is not None and last.key == key
        if again and last is not None and not last.gone:
            last.counts[rank] += 1
            return
        entry = self._after(last, key) or self._new(key, now, stamp)
        entry.again = entry.again and again
        entry.counts[rank] = 1
        self._last[rank] = entry

    def _after(self, last: _Entry | None, key: Key) -> _Entry | None:
        """The first waiting entry of this text that is later than the rank's last line."""
        alike = self._alike.get(key, [])
        index = 0 if last is None else bisect_right(alike, last.place, key=_place)
        return alike[index] if index < len(alike) else None

    def _new(self, key: Key, now: float, stamp: bytes) -> _Entry:
        entry = _Entry(key, now, self._place, stamp)
        self._place += 1
        self._alike.setdefault(key, []).append(entry)
        self._waiting.append(entry)
        return entry

    def next_deadline(self) -> float | None:
        """When `tick` has to be called, if it has to."""
        return self._waiting[0].came + WINDOW if self._waiting else None

    def tick(self, now: float) -> None:
        """Show what has waited long enough, or waits for nobody any more."""
        count = 0
        for entry in self._waiting:
            if now < entry.came + WINDOW and not self._is_complete(entry):
                break
            count += 1
        self._release(count)

    def _is_complete(self, entry: _Entry) -> bool:
        """Whether every rank has said it, and no rank may say it yet another time."""
        if not entry.counts.keys() >= self._open.get(entry.key[0], set()):
            return False
        return not entry.again or all(self._last[rank] is not entry for rank in entry.counts)

    def flush(self) -> None:
        """Show everything now."""
        self._release(len(self._waiting))

    def _release(self, count: int) -> None:
        blocks: list[tuple[int, list[bytes]]] = []
        for _ in range(count):
            entry = self._waiting.popleft()
            entry.gone = True
            alike = self._alike[entry.key]
            del alike[0]  # what came first goes first
            if not alike:
                del self._alike[entry.key]
            fd = entry.key[0]
            if not blocks or blocks[-1][0] != fd:
                blocks.append((fd, []))
            blocks[-1][1].extend(self._lines(entry))
        for fd, lines in blocks:
            self._write(fd, b"".join(lines))

    def _lines(self, entry: _Entry) -> Iterable[bytes]:
        """How an entry is shown."""
        fd, line = entry.key
        line_was_shown = entry.again and min(entry.counts.values()) > 1
        if not line_was_shown:
            yield self._prefix(entry, entry.counts, fd) + line + b"\n"
        if max(entry.counts.values()) == 1:
            return
        by_times: dict[int, list[int]] = {}
        for rank, count in entry.counts.items():
            if times := count if line_was_shown else count - 1:
                by_times.setdefault(times, []).append(rank)
        for times, ranks in sorted(by_times.items()):
            told = f"(last line repeated {times} time{'s' if times > 1 else ''})\n"
            yield self._prefix(entry, ranks, fd) + told.encode()

    def _prefix(self, entry: _Entry, ranks: Iterable[int], fd: int) -> bytes:
        return entry.stamp + _prefix(frozenset(ranks), fd in self._colours)


@lru_cache(maxsize=1024)
def _prefix(ranks: frozenset[int], colour: bool) -> bytes:
    return rank_prefix(ranks, colour=colour)
