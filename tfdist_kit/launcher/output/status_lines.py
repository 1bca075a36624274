"""One status line per rank, below the log, on a terminal.

    Board -> rows, with the memory of each process -> rich -> lines that fit the terminal

Nothing of the terminal's state is changed (no hidden cursor, no raw mode, no scroll region), so
that nothing has to be restored, however the launcher ends. The lines are removed before anything
else is written and drawn again below it; the cursor waits at the start of the next line.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tfdist_kit.launcher import quantities
from tfdist_kit.launcher.output.board import Board, Row

if TYPE_CHECKING:
    from rich.table import Table

INTERVAL = 0.25
MOST_LINES = 16
_ESCAPE = re.compile(r"\x1b\[[\d;]*m")
_STYLES = {
    **dict.fromkeys(("joined", "watching", "saved"), "green"),
    **dict.fromkeys(("done", "finished"), "dim"),
    **dict.fromkeys(("saving", "preempted"), "yellow"),
    "failed": "red",
}


class LiveView:
    """The status lines of one terminal.

    Args:
        board: What they tell.
        fd: The terminal.
        colour: Whether colours are welcome.
    """

    def __init__(self, board: Board, fd: int, *, colour: bool) -> None:
        self.fd = fd
        self.interval = INTERVAL
        self._board = board
        self._colour = colour
        self._device = os.fstat(fd).st_rdev
        self._covered: dict[int, bool] = {}
        self._widths: list[int] = []
        self._drawn = b""
        self._rendered = b""
        self._rendered_widths: list[int] = []
        self._render_at = time.monotonic() + INTERVAL  # a run that is over at once shows none

    def covers(self, fd: int) -> bool:
        """Whether what is written to `fd` appears on this terminal."""
        if fd not in self._covered:
            self._covered[fd] = os.isatty(fd) and os.fstat(fd).st_rdev == self._device
        return self._covered[fd]

    def erase(self) -> bytes:
        """What removes the lines that are drawn now."""
        height, fits = len(self._widths), max(self._widths, default=0) <= self._size().columns
        self.forget()
        if not height or not fits:  # made narrower: some terminals wrap what no longer fits, some
            return b""  # cut it, and a line of the log must not be removed by mistake
        return f"\r\x1b[{height}A\x1b[J".encode()

    def draw(self) -> bytes:
        """What draws the lines; nothing while they are drawn and still true."""
        now = time.monotonic()
        if now >= self._render_at:
            self._render_at = now + INTERVAL
            self._render(now)
        if self._drawn == self._rendered:
            return b""
        if not self._is_ours():
            return self.erase()
        erased = self.erase()
        self._drawn, self._widths = self._rendered, self._rendered_widths
        return erased + self._drawn

    def forget(self) -> None:
        """Leave what is drawn where it is."""
        self._drawn, self._widths = b"", []

    def _size(self) -> os.terminal_size:
        try:
            size = os.get_terminal_size(self.fd)
        except OSError:
            size = os.terminal_size((0, 0))
        return os.terminal_size((size.columns or 80, size.lines or 24))

    def _is_ours(self) -> bool:
        """Whether we are in the terminal's foreground: `tfdist run ... &` must not draw."""
        try:
            return os.tcgetpgrp(self.fd) == os.getpgrp()
        except OSError:
            return True  # not our controlling terminal: nobody else's job runs on it

    def _render(self, now: float) -> None:
        size = self._size()
        rows = self._board.rows()
        room = max(1, min(MOST_LINES, size.lines // 2))
        shown = rows if len(rows) <= room else rows[: room - 1]
        text = _as_text(_table(shown, now), size.columns - 1, colour=self._colour)
        if len(shown) < len(rows):
            text += f"and {len(rows) - len(shown)} more ranks"[: size.columns - 1] + "\n"
        self._rendered = text.encode()
        self._rendered_widths = [len(line) for line in _ESCAPE.sub("", text).splitlines()]


def _table(rows: list[Row], now: float) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2), pad_edge=False)
    for justify in ("left", "left", "right", "right", "right"):
        table.add_column(no_wrap=True, justify=justify, overflow="ellipsis")
    for row in rows:
        rss = None if row.pid is None else quantities.resident(row.pid)
        table.add_row(
            Text(f"rank {row.rank} ({row.task})"),
            Text(row.state, style=_STYLES.get(row.state, "")),
            Text("" if row.step is None else f"step {row.step}"),
            Text(_last_output(row, now)),
            Text("" if rss is None else quantities.memory(rss)),
        )
    return table


def _last_output(row: Row, now: float) -> str:
    if row.pid is None:
        return ""
    if row.heard_at is None:
        return "no output yet"
    return f"output {quantities.age(now - row.heard_at)} ago"


def _as_text(table: Table, width: int, *, colour: bool) -> str:
    from rich.console import Console

    console = Console(
        width=max(1, width),
        color_system="standard" if colour else None,
        force_terminal=True,
        no_color=not colour,
        highlight=False,
        markup=False,
        emoji=False,
        _environ={},
    )
    with console.capture() as captured:
        console.print(table)
    lines = captured.get().splitlines()
    return "".join(f"{line.rstrip()}\n" for line in lines)


def live_view(board: Board, fd: int, environ: Mapping[str, str]) -> LiveView | None:
    """The status lines for `fd`, if it is a terminal that can show them."""
    with contextlib.suppress(OSError):
        if os.isatty(fd) and environ.get("TERM", "dumb") != "dumb":
            return LiveView(board, fd, colour=not environ.get("NO_COLOR"))
    return None
