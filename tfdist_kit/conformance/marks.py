"""What checks and mutants are marked with.

    @claim("mwms.reduce.sum") on a test -> the marker tfdist_claim -> `plugin`
    @mutant("mwms.reduce.sum", name="forgets-peers") on a function -> Mutant -> run in each worker

A mutant breaks one behaviour of TensorFlow on purpose. Under it the claim's check has to fail.
"""

from __future__ import annotations

import difflib
import importlib.util
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfdist_kit._errors import UsageError

if TYPE_CHECKING:
    import pytest

MARK = "tfdist_claim"

Patch = Callable[[Any, str, Callable[[Any], Any]], None]


@dataclass(frozen=True)
class Mutant:
    """A named way to break a behaviour.

    Attributes:
        name: What it is called.
        claim: The claim whose check has to fail under it.
        also: Other claims whose checks fail under it, too.
        apply: Breaks the behaviour in the process that it is called in.
        place: Where it is written, as ``file.py:12``.
    """

    name: str
    claim: str
    also: tuple[str, ...]
    apply: Callable[[Patch], None]
    place: str


class MutantError(Exception):
    """A mutant cannot be applied to this TensorFlow; that says nothing of the check."""


_mutants: dict[str, Mutant] = {}


def claim(*ids: str) -> pytest.MarkDecorator:
    """Bind a check to the claims that it proves.

    Args:
        ids: As the register has them.

    Returns:
        A decorator for a test function or a class of them.
    """
    import pytest  # here: a worker that only applies a mutant has no need of it

    if not ids or not all(isinstance(each, str) for each in ids):
        raise UsageError(
            f"claim was called with {ids!r}", hint='name claims: @claim("mwms.reduce.sum")'
        )
    decorator: pytest.MarkDecorator = getattr(pytest.mark, MARK)(*ids)
    return decorator


def mutant(
    claim_id: str, *, name: str, also: tuple[str, ...] = ()
) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    """Register a function as a mutant.

    The function is given `patch`, and runs in every worker, in a process of its own, before the
    check. It must not make TensorFlow initialise its devices.

    Args:
        claim_id: The claim whose check has to fail.
        name: What the mutant is called, in lower case words.
        also: Claims whose checks fail, too.

    Raises:
        UsageError: There is a mutant of that name.
    """

    def register(function: Callable[[Patch], None]) -> Callable[[Patch], None]:
        if name in _mutants:
            raise UsageError(
                f"there are two mutants {name!r}", hint=f"rename one: see {_mutants[name].place}"
            )
        code = function.__code__
        place = f"{Path(code.co_filename).name}:{code.co_firstlineno}"
        _mutants[name] = Mutant(name, claim_id, tuple(also), function, place)
        return function

    return register


def patch(owner: Any, attribute: str, make: Callable[[Any], Any]) -> None:
    """Replace an attribute for the rest of this process.

    Args:
        owner: A module, class or object.
        attribute: Its name there.
        make: Is given what was there (the function itself of a static or class method), and
            returns what is to be there.

    Raises:
        MutantError: There is no such attribute, or it would stay as it was.
    """
    if not hasattr(owner, attribute):
        where = getattr(owner, "__name__", type(owner).__name__)
        raise MutantError(f"{where} has no {attribute!r} that could be broken")
    found = inspect.getattr_static(owner, attribute) if inspect.isclass(owner) else None
    if isinstance(found, (staticmethod, classmethod)):
        setattr(owner, attribute, type(found)(_other(found.__func__, make)))
    else:
        whole = found if found is not None else getattr(owner, attribute)
        setattr(owner, attribute, _other(whole, make))


def _other(found: Any, make: Callable[[Any], Any]) -> Any:
    made = make(found)
    if made is found:
        raise MutantError(f"the replacement of {found!r} is that itself")
    return made


def load_mutants(folder: Path) -> tuple[Mutant, ...]:
    """Read all mutants of a folder, in the order of their files.

    Args:
        folder: Every Python file in it is read, but those whose name begins with ``_``.

    Raises:
        UsageError: Two of them have one name.
    """
    _mutants.clear()
    for number, file in enumerate(_files(folder)):
        spec = importlib.util.spec_from_file_location(f"_tfdist_mutants_{number}", file)
        assert spec is not None
        assert spec.loader is not None
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    return tuple(_mutants.values())


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*.py")):
        if not path.name.startswith("_"):
            yield path


def apply_mutant(folder: Path, name: str) -> None:
    """Break a behaviour in this process.

    Raises:
        MutantError: There is no such mutant, or it does not fit this TensorFlow.
    """
    known = {each.name: each for each in load_mutants(folder)}
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        also = f"; did you mean {near[0]!r}?" if near else ""
        raise MutantError(f"there is no mutant {name!r}{also}")
    known[name].apply(patch)
