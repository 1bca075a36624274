"""One entry of the register: a claim, what it needs, and where TensorFlow does otherwise.

Table (strict) -> Claim (Needs, Deviations)

A claim is what a document says. A deviation is what some versions of TensorFlow do instead; the
claim's check still asserts what the document says, and then has to fail in just that way.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from tfdist_kit.conformance.tables import Table

KINDS = ("behaviour", "signature", "limitation", "recommendation", "error", "example")
LEVELS = ("core", "extended", "informative")
VERDICTS = ("known deviation", "document defect")

# Words, not section numbers: an id stays when the page is rearranged.
_WORDS = r"[a-z][a-z0-9]*(-[a-z0-9]+)*"
_ID = re.compile(rf"{_WORDS}(\.{_WORDS}){{2}}")
_ANCHOR = re.compile(r"[a-z][a-z0-9_-]*")
_CLAIM = ("id", "anchor", "statement", "kind", "level", "needs", "untestable", "deviation")


@dataclass(frozen=True)
class Needs:
    """What must be there for a claim to show.

    Attributes:
        workers: How many processes that train; a chief is one of them.
        local_replicas: How many replicas in each.
        graph: Whether TensorFlow runs in v1 graph mode.
        keras: Which Keras: 2 (tf_keras) or 3; 0 if none.
        gpu: Whether each worker has a GPU.
        tpu: Whether there is a TPU.
        embedding_engine: Whether a step of TPUEmbedding runs. A TPU has the engine for it; without
            one, the host mode of the kit's adapter stands in.
    """

    workers: int = 1
    local_replicas: int = 1
    graph: bool = False
    keras: int = 0
    gpu: bool = False
    tpu: bool = False
    embedding_engine: bool = False


@dataclass(frozen=True)
class Deviation:
    """What TensorFlow does instead of what a claim says.

    Attributes:
        tensorflow: The versions that do so, as a version range.
        verdict: Whose mistake it is: "known deviation" or, if the page is wrong, "document defect".
        seen: What is seen instead.
        match: Regular expression that is found in the failure of the claim's check.
        cured_by_adapter: Whether the claim holds through the kit's adapter.
        link: Where it was reported in public; may be empty.
    """

    tensorflow: str
    verdict: str
    seen: str
    match: str
    cured_by_adapter: bool = False
    link: str = ""

    def applies_to(self, version: str) -> bool:
        """Whether a version of TensorFlow does so; a release candidate counts as its release."""
        return SpecifierSet(self.tensorflow).contains(Version(version).base_version)


@dataclass(frozen=True)
class Claim:
    """One statement of a document.

    Attributes:
        id: Stable name, as ``mwms.reduce.sum-over-workers``.
        document: The document that says so, as ``multi_worker_mirrored``.
        anchor: The heading that it stands under.
        statement: What it says, in our words.
        kind: One of `KINDS`.
        level: One of `LEVELS`.
        needs: What must be there for it to show.
        untestable: Why no check can exist; empty if one can.
        deviations: Where TensorFlow is known to do otherwise.
    """

    id: str
    document: str
    anchor: str
    statement: str
    kind: str
    level: str
    needs: Needs = Needs()
    untestable: str = ""
    deviations: tuple[Deviation, ...] = ()

    def deviation_for(self, version: str) -> Deviation | None:
        """What a version of TensorFlow does instead; None if it should do as the claim says."""
        return next((one for one in self.deviations if one.applies_to(version)), None)


def claim_of(entry: Table, file: str, document: str) -> Claim:
    """Read an entry.

    Args:
        entry: The entry.
        file: The name of its file, for messages.
        document: What that file is about.

    Raises:
        RegisterError: The entry is wrong.
    """
    name = entry.text("id")
    if not _ID.fullmatch(name):
        raise entry.wrong("id", f"is {name!r}", "write it as document.heading.a-few-words")
    entry = entry.named(f"{file}: {name}")
    entry.allow(_CLAIM)
    claim = Claim(
        id=name,
        document=document,
        anchor=entry.text("anchor"),
        statement=entry.text("statement"),
        kind=entry.one_of("kind", KINDS),
        level=entry.one_of("level", LEVELS),
        needs=_needs(entry.table("needs")),
        untestable=entry.text("untestable", ""),
        deviations=tuple(_deviation(table) for table in entry.tables("deviation")),
    )
    if not _ANCHOR.fullmatch(claim.anchor):
        raise entry.wrong("anchor", f"is {claim.anchor!r}", "give the heading's anchor, as run")
    if claim.untestable and claim.deviations:
        raise entry.wrong(
            "deviation", "is given, and so is untestable", "what no check can see cannot deviate"
        )
    return claim


def _needs(table: Table) -> Needs:
    table.allow([field.name for field in fields(Needs)])
    return Needs(
        workers=table.whole("workers"),
        local_replicas=table.whole("local_replicas"),
        graph=table.flag("graph"),
        keras=table.one_of("keras", (0, 2, 3), 0),
        gpu=table.flag("gpu"),
        tpu=table.flag("tpu"),
        embedding_engine=table.flag("embedding_engine"),
    )


def _deviation(table: Table) -> Deviation:
    table.allow([field.name for field in fields(Deviation)])
    deviation = Deviation(
        tensorflow=table.text("tensorflow"),
        verdict=table.one_of("verdict", VERDICTS),
        seen=table.text("seen"),
        match=table.text("match"),
        cured_by_adapter=table.flag("cured_by_adapter"),
        link=table.text("link", ""),
    )
    try:
        SpecifierSet(deviation.tensorflow)
    except InvalidSpecifier:
        raise table.wrong(
            "tensorflow", f"is {deviation.tensorflow!r}", "give a version range, as >=2.18,<2.22"
        ) from None
    try:
        re.compile(deviation.match)
    except re.error as error:
        raise table.wrong(
            "match", f"is {deviation.match!r}: {error}", "give a regular expression"
        ) from None
    return deviation
