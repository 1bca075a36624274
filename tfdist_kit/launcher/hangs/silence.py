"""How long each worker has given no sign of life.

A sign of life is output, progress that the worker reports, or a new phase. Each rank counts by
itself, so that one which prints for ever hides no other. Only a rank that trains and is in its
script is counted: not one that still starts, nor one that has ended its script and waits for its
peers, nor an evaluator, whose work is to wait for checkpoints.
"""

from __future__ import annotations

from dataclasses import dataclass, field

NEARLY = 0.9


@dataclass
class Silence:
    """Who is silent, and since when.

    Args:
        limit: How many seconds of it are too many; None for any number.
    """

    limit: float | None
    _since: dict[int, float] = field(default_factory=dict)

    def begin(self, rank: int, now: float) -> None:
        """`rank` is in its script from now on."""
        self._since[rank] = now

    def heard(self, rank: int, now: float) -> None:
        """`rank` gave a sign of life."""
        if rank in self._since:
            self._since[rank] = now

    def end(self, rank: int) -> None:
        """Nothing more is expected of `rank`."""
        self._since.pop(rank, None)

    def excuse(self, now: float) -> None:
        """Begin anew with every rank: until now they waited for what they may wait for."""
        self._since = dict.fromkeys(self._since, now)

    def pause(self, seconds: float) -> None:
        """Count the last `seconds` for nobody: nobody was there to hear."""
        self._since = {rank: at + seconds for rank, at in self._since.items()}

    def deadline(self) -> float | None:
        """When the first rank will have been silent for too long."""
        if self.limit is None or not self._since:
            return None
        return min(self._since.values()) + self.limit

    def ranks(self, now: float) -> tuple[int, ...]:
        """Who has been silent for too long, or as good as: ranks that hang fall silent together."""
        if self.limit is None:
            return ()
        limit = self.limit * NEARLY
        return tuple(sorted(rank for rank, at in self._since.items() if now >= at + limit))
