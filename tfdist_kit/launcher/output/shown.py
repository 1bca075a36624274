"""What becomes of one stream's lines: shown at once with its rank, or merged with their like."""

from __future__ import annotations

from dataclasses import dataclass

from tfdist_kit.launcher.output.collapse import Collapser
from tfdist_kit.launcher.output.console import Console
from tfdist_kit.launcher.output.lines import prefixed, timestamp
from tfdist_kit.launcher.output.quiet import Quiet


@dataclass(frozen=True)
class Prefixed:
    """Lines go to the console at once, each with its rank.

    Attributes:
        prefix: What each line starts with.
        fd: The descriptor to which the console writes them.
        quiet: What leaves some of them out, if wished.
        console: The console.
        timestamps: Whether the time comes before the prefix.
    """

    prefix: bytes
    fd: int
    quiet: Quiet | None
    console: Console
    timestamps: bool

    def show(self, whole: bytes, now: float) -> None:
        """Take a block of whole lines."""
        if self.quiet is not None:
            whole = self.quiet.filter(whole)
        prefix = timestamp() + self.prefix if self.timestamps else self.prefix
        self.console.write(self.fd, prefixed(whole, prefix))

    def close(self, now: float) -> None:
        """No more will come."""


class Collapsed:
    """Lines wait a little for the same line of other ranks.

    Args:
        rank: Whose they are.
        fd: The descriptor to which the console writes them.
        quiet: What leaves some of them out, if wished.
        collapser: What merges them.
    """

    def __init__(self, rank: int, fd: int, quiet: Quiet | None, collapser: Collapser) -> None:
        self._rank = rank
        self._fd = fd
        self._quiet = quiet
        self._collapser = collapser
        collapser.join(rank, fd)

    def show(self, whole: bytes, now: float) -> None:
        """Take a block of whole lines."""
        if self._quiet is not None:
            whole = self._quiet.filter(whole)
        if whole:
            self._collapser.add(self._rank, self._fd, whole, now)

    def close(self, now: float) -> None:
        """No more will come."""
        self._collapser.leave(self._rank, self._fd)
