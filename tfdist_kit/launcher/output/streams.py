"""All output streams of an attempt: read in bulk, kept in their files, shown as was wished.

    pipes -> one selector (waited for by the loop as one descriptor) -> StreamLog per pipe
          -> lines -> Quiet -> prefix, or Collapser -> Console

Output is read at most every `READ_INTERVAL` seconds, so that a worker that writes line by line
costs one turn of the loop for hundreds of lines; the pipes are made large enough for that. While
the console is full nothing is read at all: the workers wait.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import selectors
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tfdist_kit.launcher.output.collapse import Collapser
from tfdist_kit.launcher.output.console import Console
from tfdist_kit.launcher.output.lines import Shown, StreamLog, rank_prefix, wants_colour
from tfdist_kit.launcher.output.quiet import Quiet
from tfdist_kit.launcher.output.shown import Collapsed, Prefixed
from tfdist_kit.launcher.plan import WorkerPlan
from tfdist_kit.launcher.request import ConsoleWish

STREAM_FDS: Mapping[str, int] = {"stdout": 1, "stderr": 2}
READ_INTERVAL = 0.004
FULL_CONSOLE_POLL = 0.02
CHUNK = 256 * 1024
PIPE_SIZE = 1 << 20
ALL_PIPES = 16 << 20
_LEAST_PIPE = 64 * 1024
_LAST_READS = 256


@dataclass(eq=False)
class _Stream:
    """A pipe that is being read."""

    fd: int
    rank: int
    log: StreamLog
    read_at: float = 0.0


class Streams:
    """Reads every worker's output.

    Args:
        wish: What of it the console shows.
        size: How many workers there will be.
        console: Where that goes.
        environ: The launcher's environment: it may hold ``NO_COLOR``.
        on_output: Is told the rank and the time whenever one has written something.
        on_trouble: Is told why some output cannot be kept.
    """

    def __init__(
        self,
        wish: ConsoleWish,
        size: int,
        console: Console,
        environ: Mapping[str, str],
        on_output: Callable[[int, float], None],
        on_trouble: Callable[[OSError], None],
    ) -> None:
        self._wish = wish
        self._pipe_size = max(_LEAST_PIPE, min(PIPE_SIZE, ALL_PIPES // (2 * size)))
        self._console = console
        self._on_output = on_output
        self._on_trouble = on_trouble
        self._selector = selectors.DefaultSelector()
        self._next_read = 0.0
        colours = {fd for fd in STREAM_FDS.values() if wants_colour(fd, environ.get("NO_COLOR"))}
        self._colours = colours
        self._collapser = Collapser(console.write, colours=colours, timestamps=wish.timestamps)

    def add(self, worker: WorkerPlan, stream: str, fd: int) -> None:
        """Read `stream` of `worker` from the pipe `fd` from now on; its owner closes it."""
        os.set_blocking(fd, False)
        with contextlib.suppress(OSError, AttributeError):  # not Linux, or the user has too many
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, self._pipe_size)
        path = worker.folder / f"{stream}.log"
        log = StreamLog(path, self._shown(worker.rank, STREAM_FDS[stream]))
        self._selector.register(fd, selectors.EVENT_READ, _Stream(fd, worker.rank, log))

    def _shown(self, rank: int, fd: int) -> Shown | None:
        wish = self._wish
        if not wish.tee or (wish.ranks is not None and rank not in wish.ranks):
            return None
        quiet = Quiet() if wish.quiet_tf else None
        if wish.collapse:
            return Collapsed(rank, fd, quiet, self._collapser)
        prefix = rank_prefix([rank], colour=fd in self._colours)
        return Prefixed(prefix, fd, quiet, self._console, wish.timestamps)

    def fileno(self) -> int:
        """Becomes readable when a worker has written something; for a selector to wait for."""
        return self._selector.fileno()

    def next_read(self, now: float) -> float:
        """The time before which nothing is to be read."""
        if self._console.is_full:
            return now + FULL_CONSOLE_POLL
        return self._next_read

    def read(self) -> None:
        """Take what the workers have written, the longest unread first."""
        now = time.monotonic()
        ready: list[_Stream] = [key.data for key, _ in self._selector.select(0)]
        more = False
        for stream in sorted(ready, key=lambda stream: stream.read_at):
            if self._console.is_full:
                break
            stream.read_at = now
            size = self._read(stream)
            more = more or size == CHUNK
            if size:
                self._on_output(stream.rank, now)
        self._next_read = now if more else now + READ_INTERVAL

    def _read(self, stream: _Stream) -> int:
        """Take what can be read now; tells how much that was."""
        try:
            data = os.read(stream.fd, CHUNK)
        except BlockingIOError:
            return 0
        if not data:
            self._selector.unregister(stream.fd)
            stream.log.close()
            return 0
        try:
            stream.log.feed(data)
        except OSError as error:
            self._on_trouble(error)
        return len(data)

    def next_deadline(self) -> float | None:
        """When `show_due` has to be called, if it has to."""
        return self._collapser.next_deadline()

    def show_due(self) -> None:
        """Show what has waited long enough for its like."""
        if self._collapser.next_deadline() is not None:
            self._collapser.tick(time.monotonic())

    def show_all(self) -> None:
        """Show everything now."""
        self._collapser.flush()

    def finish(self) -> None:
        """Take what is left in the pipes, show everything, and close the files.

        The writers are dead, so that what is in the pipes is all there is; those that have
        escaped and write for ever are not waited for.
        """
        for key in list(self._selector.get_map().values()):
            for _ in range(_LAST_READS):
                if not self._read(key.data):
                    break
        for key in self._selector.get_map().values():
            key.data.log.close()
        self._collapser.flush()
        self._selector.close()
