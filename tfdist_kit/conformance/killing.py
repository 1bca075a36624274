"""What became of a mutant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

KILLED: Final = "killed"
SURVIVED: Final = "survived"
NOT_RUN: Final = "not run"


@dataclass(frozen=True)
class Killing:
    """What became of a mutant.

    Attributes:
        mutant: Its name.
        claim: The claim that it is of.
        place: Where it is written.
        result: ``killed``, ``survived`` or ``not run``.
        text: How the check failed, or why there is nothing to say.
        also: Other claims that broke although the mutant does not name them.
    """

    mutant: str
    claim: str
    place: str
    result: Literal["killed", "survived", "not run"]
    text: str = ""
    also: tuple[str, ...] = ()
