"""What the lint says: a mistake is known beforehand, a finding is one place where it was made.

    mistake(code, what, why=..., cure=...) -> Mistake, kept in MISTAKES
    Mistake.at(where, given)               -> Finding

The words are written once, beside the rule that uses them. Texts that were given are shown in
ASCII, so that a finding can be printed anywhere. Nothing here looks at a TF_CONFIG.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from string import Template
from typing import Any, Final, Literal

from tfdist_kit._errors import TFConfigError

Severity = Literal["error", "warning"]

MISSING: Final = object()
"""Stands for a value that is not there, since None is a value that JSON can write."""

_LONGEST_GIVEN = 120


@dataclass(frozen=True)
class Finding:
    """A mistake in one place.

    Attributes:
        code: Stable identifier of the mistake, ``TFC`` and three digits.
        severity: ``error``: it cannot work, or would silently train alone. ``warning``: it works
            or may work, but is probably not what was meant.
        where: The key, address or variable that it is about.
        given: What is written there, as JSON.
        what: The mistake in one phrase.
        why: What TensorFlow does with it.
        cure: What to do about it.
        source: The file that it was found in; empty where there is only one text.
    """

    code: str
    severity: Severity
    where: str
    given: str
    what: str
    why: str
    cure: str
    source: str = ""

    def to_dict(self) -> dict[str, str]:
        """The finding as JSON-ready data."""
        return asdict(self)

    def __str__(self) -> str:
        place = f"{self.source}: {self.where}" if self.source else self.where
        return (
            f"{self.code} {self.severity}: {self.what}\n"
            f"  where: {place}\n"
            f"  given: {self.given}\n"
            f"  why:   {self.why}\n"
            f"  cure:  {self.cure}"
        )


@dataclass(frozen=True)
class Mistake:
    """A kind of mistake; its fields are a `Finding`'s, with ``$name`` for details of the place."""

    code: str
    what: str
    why: str
    cure: str
    severity: Severity = "error"

    def at(self, where: str, given: object, **details: object) -> Finding:
        """The finding that this mistake was made at `where`.

        Args:
            where: The key, address or variable.
            given: The value that is written there, or MISSING.
            **details: Values for the ``$name`` places in `why` and `cure`.
        """
        words = {name: _ascii(str(value)) for name, value in details.items()}
        return Finding(
            code=self.code,
            severity=self.severity,
            where=_ascii(where),
            given=show(given),
            what=self.what,
            why=Template(self.why).substitute(words),
            cure=Template(self.cure).substitute(words),
        )


MISTAKES: Final[dict[str, Mistake]] = {}
"""Every mistake that the lint knows, by code."""


def mistake(code: str, what: str, *, why: str, cure: str, severity: Severity = "error") -> Mistake:
    """Make a `Mistake` and keep it in `MISTAKES`; each code is given once."""
    if code in MISTAKES:
        raise ValueError(f"the code {code} is already taken by {MISTAKES[code].what!r}")
    MISTAKES[code] = Mistake(code, what, why, cure, severity)
    return MISTAKES[code]


def show(given: object) -> str:
    """What was given, as short ASCII text: JSON where it can be written so."""
    if given is MISSING:
        return "nothing"
    text = json.dumps(given, default=repr)
    return text if len(text) <= _LONGEST_GIVEN else f"{text[:_LONGEST_GIVEN]}..."


def _ascii(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode()


def raise_errors(findings: Iterable[Finding]) -> None:
    """Raise if any finding is an error.

    Raises:
        TFConfigError: Tells the first error, and carries all findings.
    """
    everything = tuple(findings)
    errors = [finding for finding in everything if finding.severity == "error"]
    if not errors:
        return
    first, more = errors[0], len(errors) - 1
    raise TFConfigError(
        f"{first.what} ({first.code} at {first.where}, given {first.given}): {first.why}"
        + (f" (and {more} more)" if more else ""),
        hint=first.cure,
        findings=everything,
    )


def path(*keys: Any) -> str:
    """The place of a value, for example ``cluster.worker[1]``; odd keys are quoted."""
    text = ""
    for key in keys:
        if isinstance(key, int):
            text += f"[{key}]"
        elif key.isidentifier():
            text += f".{key}"
        else:
            text += f"[{json.dumps(key)}]"
    return text.removeprefix(".")
