"""The end of the data: no error where it comes to all workers, after the same step."""

from __future__ import annotations

from dataclasses import dataclass

from tfdist_kit._errors import CheckpointError
from tfdist_kit.adapters.preemption_checkpoint.team import Team

_END_OF_DATA_SECONDS = 60.0


@dataclass(frozen=True)
class EndOfData:
    """A step could not be made, for its data is at an end."""

    error: BaseException


def end_together(team: Team, end: int, begun: int, meet_within: float) -> None:
    """Make sure that every worker is out of data after the same step.

    Args:
        team: The workers.
        end: How many times data has ended before.
        begun: The step after which this worker's has.
        meet_within: How long workers wait for each other at most, in seconds.

    Raises:
        CheckpointError: Some worker still has data, and would wait for this one for ever.
    """
    seconds = min(_END_OF_DATA_SECONDS, meet_within)
    try:
        told = team.exchange(f"end/{end}", str(begun), seconds, "come to the end of its data")
    except CheckpointError as error:
        raise _unequal(team, begun, "others still have some") from error
    if len(set(told)) > 1:
        steps = ", ".join(f"{n}: {t}" for n, t in zip(team.names, told, strict=True))
        raise _unequal(team, begun, steps)


def _unequal(team: Team, begun: int, found: str) -> CheckpointError:
    return CheckpointError(
        f"the data of {team.name} ends after {begun} steps, but not that of every worker ({found})",
        hint="give each worker equally many batches: see tfdist_kit.adapters.datasets",
    )
