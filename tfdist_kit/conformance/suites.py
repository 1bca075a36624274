"""Where a suite lies: its register, its checks and its mutants. The kit's own, or another's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tfdist_kit._errors import UsageError
from tfdist_kit.conformance.claims import Register, load
from tfdist_kit.conformance.marks import Mutant, load_mutants

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Suite:
    """A folder with ``register/*.toml``, ``checks/`` and ``mutants/``.

    Attributes:
        folder: The folder.
    """

    folder: Path = _HERE

    @classmethod
    def at(cls, folder: str | None) -> Suite:
        """The suite in a folder; the kit's own if none is given.

        Raises:
            UsageError: There is none.
        """
        if folder is None:
            return cls()
        suite = cls(Path(folder).absolute())
        for part in (suite.folder / "register", suite.checks):
            if not part.is_dir():
                raise UsageError(
                    f"{folder} is no suite: it has no folder {part.name}",
                    hint="a suite has register/*.toml, checks/test_*.py and mutants/*.py",
                )
        return suite

    @property
    def is_own(self) -> bool:
        """Whether it is the kit's."""
        return self.folder == _HERE

    @property
    def checks(self) -> Path:
        """Where its checks are."""
        return self.folder / "checks"

    @property
    def mutants_folder(self) -> Path:
        """Where its mutants are."""
        return self.folder / "mutants"

    @property
    def settings(self) -> Path:
        """The settings of pytest."""
        own = self.folder / "pytest.ini"
        return own if own.exists() else _HERE / "pytest.ini"

    def register(self) -> Register:
        """What is claimed."""
        return load(self.folder / "register")

    def mutants(self) -> tuple[Mutant, ...]:
        """The ways to break it."""
        return load_mutants(self.mutants_folder)
