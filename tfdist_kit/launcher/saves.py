"""Which workers are saving what would else be lost, and how long the run's end waits for them.

A worker says ``saving`` when a save after a notice begins, and ``saved`` when it is done. Nobody is
ended meanwhile, not even a peer that has saved: the others may still need it. Once the run is
being ended, all saves together have the time limit of one, so that no worker can put off the end
for ever by saving again and again.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Saves:
    """Who is saving, and since when.

    Args:
        limit: How many seconds a save may take.
    """

    limit: float
    _since: dict[int, float] = field(default_factory=dict)
    _over_at: float | None = None
    _ending_since: float | None = None

    def begin(self, rank: int, now: float) -> None:
        """`rank` is saving from now on."""
        self._since[rank] = now if self._ending_since is None else self._ending_since

    def end(self, rank: int, now: float) -> None:
        """`rank` has saved, or will never have; of who does not save, nothing changes."""
        since = self._since.pop(rank, None)
        if since is not None:
            self._over_at = min(now, since + self.limit)

    def run_ends(self, now: float) -> None:
        """The run is being ended from now on."""
        if self._ending_since is None:
            self._ending_since = now

    def pause(self, seconds: float) -> None:
        """Count the last `seconds` for nobody: nobody was there to hear."""
        self._since = {rank: at + seconds for rank, at in self._since.items()}
        if self._over_at is not None:
            self._over_at += seconds
        if self._ending_since is not None:
            self._ending_since += seconds

    def ranks(self) -> tuple[int, ...]:
        """Who is saving."""
        return tuple(sorted(self._since))

    def hold(self, at: float | None, spare: float) -> float | None:
        """Put a deadline off until all have saved.

        Args:
            at: The deadline; None is none.
            spare: How many seconds the workers have after the last save, to leave.
        """
        if at is None:
            return None
        over = [] if self._over_at is None else [self._over_at + spare]
        return max([at, *over, *(since + self.limit for since in self._since.values())])

    def give_up(self, now: float) -> tuple[int, ...]:
        """Forget the saves that have taken too long, and say whose they were."""
        late = tuple(rank for rank in self.ranks() if now >= self._since[rank] + self.limit)
        for rank in late:
            del self._since[rank]
        return late
