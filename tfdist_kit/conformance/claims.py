"""The register: what TensorFlow's documents say, one checkable statement at a time.

register/DOCUMENT.toml -> Table (strict) -> Claim -> Register
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from tfdist_kit._errors import UsageError
from tfdist_kit.conformance.entries import LEVELS, Claim, Deviation, Needs, claim_of
from tfdist_kit.conformance.tables import Table

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

__all__ = ["Claim", "Deviation", "Document", "Needs", "Register", "load"]


@dataclass(frozen=True)
class Document:
    """A public page.

    Attributes:
        name: As it is called on the command line, ``multi_worker_mirrored``.
        title: What it is about.
        page: Its address.
    """

    name: str
    title: str = ""
    page: str = ""


@dataclass(frozen=True)
class Register:
    """All claims, in the order of the files and within them.

    Attributes:
        documents: The pages.
        claims: What they say.
    """

    documents: tuple[Document, ...]
    claims: tuple[Claim, ...]

    def __iter__(self) -> Iterator[Claim]:
        return iter(self.claims)

    def __len__(self) -> int:
        return len(self.claims)

    def claim(self, name: str) -> Claim:
        """The claim with an id.

        Raises:
            UsageError: There is none.
        """
        for claim in self.claims:
            if claim.id == name:
                return claim
        raise _unknown("claim", name, [claim.id for claim in self.claims])

    def of_document(self, name: str) -> tuple[Claim, ...]:
        """The claims of a document.

        Raises:
            UsageError: There is no such document.
        """
        names = [document.name for document in self.documents]
        if name not in names:
            raise _unknown("document", name, names)
        return tuple(claim for claim in self.claims if claim.document == name)

    def of_level(self, level: str) -> tuple[Claim, ...]:
        """The claims of a level.

        Raises:
            UsageError: There is no such level.
        """
        if level not in LEVELS:
            raise _unknown("level", level, LEVELS)
        return tuple(claim for claim in self.claims if claim.level == level)


def load(folder: Traversable | None = None) -> Register:
    """Read the register.

    Args:
        folder: Where its files are; the package's own if not given.

    Raises:
        RegisterError: A file is wrong; the error names the file, the entry and the key.
    """
    folder = folder or files(__package__) / "register"
    found = sorted((f for f in folder.iterdir() if f.name.endswith(".toml")), key=lambda f: f.name)
    documents, claims = [], list[Claim]()
    for file in found:
        table = Table.of_file(file)
        table.allow(("title", "page", "claim"))
        name = file.name.removesuffix(".toml")
        documents.append(Document(name, table.text("title", ""), table.text("page", "")))
        entries = table.tables("claim")
        claims += [claim_of(entry, file.name, name) for entry in entries]
    _check_ids(claims)
    return Register(tuple(documents), tuple(claims))


def _check_ids(claims: Sequence[Claim]) -> None:
    seen: dict[str, str] = {}
    prefixes: dict[str, str] = {}
    for claim in claims:
        table = Table(f"{claim.document}.toml: {claim.id}", {})
        if claim.id in seen:
            raise table.wrong(
                "id", f"is already that of a claim in {seen[claim.id]}.toml", "give it another"
            )
        seen[claim.id] = claim.document
        first = prefixes.setdefault(claim.document, claim.id.partition(".")[0])
        if not claim.id.startswith(f"{first}."):
            raise table.wrong(
                "id", "does not begin as the others of its file", f"begin it with {first}."
            )


def _unknown(what: str, name: str, names: Sequence[str]) -> UsageError:
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names[:5])}"
    return UsageError(f"the register has no {what} {name!r}", hint=hint)
