"""What a pytest session of the suite is to do, from the process that runs it; as a JSON file.

Plan -> file -> the plugin, in pytest's process, those of pytest-xdist and the workers
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Plan:
    """One session.

    Attributes:
        suite: The suite's folder.
        events: The file that what happens is written to, a line of JSON each.
        subject: What the checks are about.
        claims: The claims to check; None for all.
        checks: Node ids of the checks to run; None for all of those claims.
        quick: Claims of which only the smallest check is run.
        mutants: Pairs of a mutant's name and the claims that are checked under it; the checks run
            without a mutant, too.
    """

    suite: str
    events: str
    subject: str = "stock"
    claims: Sequence[str] | None = None
    checks: Sequence[str] | None = None
    quick: Sequence[str] = ()
    mutants: Sequence[tuple[str, Sequence[str]]] = ()

    def write(self, path: Path) -> None:
        """Write it down."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, path: str) -> Plan:
        """Read what `write` wrote."""
        return cls(**json.loads(Path(path).read_text(encoding="utf-8")))
