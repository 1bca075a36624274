"""Strict reading of the register's files: every key is known, every value is what it should be.

file -> Table -> text, flag, whole, one_of, tables

Every mistake is a `RegisterError` that names the file, the entry and the key.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from tfdist_kit._errors import RegisterError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

T = TypeVar("T", str, int)


@dataclass(frozen=True)
class Table:
    """A table of a register file.

    Attributes:
        where: The file and the entry, for messages.
        values: What the table holds.
    """

    where: str
    values: dict[str, Any]

    @classmethod
    def of_file(cls, file: Traversable) -> Table:
        """Read a file.

        Raises:
            RegisterError: It is not TOML.
        """
        try:
            return cls(file.name, tomllib.loads(file.read_text(encoding="utf-8")))
        except (ValueError, RecursionError) as error:  # bad TOML, bad UTF-8
            raise RegisterError(
                f"{file.name} is not TOML: {error}", hint="correct the file at that place"
            ) from error

    def named(self, name: str) -> Table:
        """The same table, called otherwise in messages."""
        return replace(self, where=name)

    def wrong(self, key: str, why: str, hint: str) -> RegisterError:
        """The error for one key, to be raised."""
        return RegisterError(f"{self.where}: {key} {why}", hint=hint)

    def allow(self, keys: Collection[str]) -> None:
        """Refuse every other key."""
        for key in self.values:
            if key not in keys:
                near = difflib.get_close_matches(key, keys, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(keys)}"
                raise self.wrong(key, "is not a known key", hint)

    def text(self, key: str, default: str | None = None) -> str:
        """A string with something in it; without a default it must be given."""
        if key not in self.values and default is not None:
            return default
        value = self._given(key, "a string")
        if not isinstance(value, str) or not value.strip():
            raise self.wrong(key, f"is {value!r}", "give a string that is not empty")
        return value

    def flag(self, key: str) -> bool:
        """True or false; false where it is not given."""
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            raise self.wrong(key, f"is {value!r}", "give true or false, without quotes")
        return value

    def whole(self, key: str) -> int:
        """A number of 1 or more; 1 where it is not given."""
        value = self.values.get(key, 1)
        if not _is_whole(value) or value < 1:
            raise self.wrong(key, f"is {value!r}", "give a whole number of 1 or more")
        return int(value)

    def one_of(self, key: str, choices: Sequence[T], default: T | None = None) -> T:
        """One of a few values; without a default it must be given."""
        if key not in self.values and default is not None:
            return default
        words = ", ".join(str(choice) for choice in choices)
        value = self._given(key, f"one of {words}")
        for choice in choices:
            if value == choice and type(value) is type(choice):
                return choice
        raise self.wrong(key, f"is {value!r}", f"use one of {words}")

    def table(self, key: str) -> Table:
        """A table within this one; empty where it is not given."""
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise self.wrong(key, f"is {value!r}", f"write {key} = {{ ... }}")
        return Table(f"{self.where}: {key}", value)

    def tables(self, key: str) -> list[Table]:
        """The tables of a list, each called by its place in it."""
        value = self.values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.wrong(key, "is not a list of tables", f"write each under [[...{key}]]")
        return [Table(f"{self.where}: {key} {n}", item) for n, item in enumerate(value, 1)]

    def _given(self, key: str, wanted: str) -> Any:
        if key not in self.values:
            raise self.wrong(key, "is missing", f"give {wanted}")
        return self.values[key]


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
