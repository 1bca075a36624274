"""The marker ``tfdist``: which cluster a test wants.

marks of function, class, module (the nearest wins, option by option) -> Wish
an option with several values -> one test for each
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import pytest

from tfdist_kit._errors import UsageError

MARK = "tfdist"
_SEVERAL = (list, tuple, range)
CHECKS = ("tfdist_same_as_single_process", "tfdist_each_row_once", "tfdist_replicas_agree")


@dataclass(frozen=True)
class Wish:
    """The cluster that a test wants.

    Attributes:
        workers: How many tasks of type ``worker``.
        chief: Whether there is one of type ``chief``.
        evaluator: How many there are of type ``evaluator``: 0 or 1.
        fresh: Whether it wants processes that no other test has used.
        isolate: Whether the cluster is in a network of its own, where that can be had.
        timeout: How long it may take in the workers, in seconds; None is for ever.
        local_replicas: How many replicas a strategy has in each worker.
    """

    workers: int = 2
    chief: bool = False
    evaluator: int = 0
    fresh: bool = False
    isolate: bool = True
    timeout: float | None = 60.0
    local_replicas: int = 1

    @property
    def size(self) -> int:
        """How many processes it has."""
        return self.workers + self.chief + self.evaluator


_NAMES = tuple(field.name for field in fields(Wish))


def is_marked(node: pytest.Item | pytest.Function) -> bool:
    """Whether a test is to be run in workers."""
    return any(node.get_closest_marker(name) for name in (MARK, *CHECKS))


def several(node: Any) -> dict[str, list[Any]]:
    """The options that a test is to be run with several values of."""
    found = options(node).items()
    return {name: list(value) for name, value in found if isinstance(value, _SEVERAL) and value}


def check(item: pytest.Item, *, in_workers: bool) -> Wish:
    """Refuse marks that cannot be fulfilled.

    Args:
        item: The test.
        in_workers: Whether its body runs in the workers.

    Returns:
        The cluster that it wants.

    Raises:
        UsageError: Says what is wrong.
    """
    for mark in item.iter_markers():
        if mark.name not in CHECKS:
            continue
        if mark.args:
            raise UsageError(
                f"the marker {mark.name} was given {mark.args[0]!r} without a name",
                hint="name it, as the check's parameter is called",
            )
        if not in_workers or _is_unittest(item):
            raise UsageError(
                f"the marker {mark.name} is on a test whose result nobody sees",
                hint="mark a function that runs in the workers and returns what is to be checked; "
                "or call the check yourself, from tfdist_kit.testing",
            )
    return wish_of(item)


def _is_unittest(item: pytest.Item) -> bool:
    unittest = sys.modules.get("unittest")  # whoever has such a test has imported it
    owner = getattr(item, "cls", None)
    return unittest is not None and owner is not None and issubclass(owner, unittest.TestCase)


def parameter(option: str) -> str:
    """The name of the test's parameter for an option with several values."""
    return f"tfdist_{option}"


def options(node: Any) -> dict[str, Any]:
    """What the marks of a test say, the nearest first.

    Raises:
        UsageError: An option that there is not.
    """
    found: dict[str, Any] = {}
    for mark in node.iter_markers(MARK):
        if mark.args:
            raise UsageError(
                f"the marker tfdist was given {mark.args[0]!r} without a name",
                hint=f"name it: @pytest.mark.tfdist(workers={mark.args[0]!r})",
            )
        for name in mark.kwargs:
            if name not in _NAMES:
                raise UsageError(
                    f"the marker tfdist has no option {name!r}",
                    hint=f"its options are {', '.join(_NAMES)}",
                )
        found = {**mark.kwargs, **found}
    return found


def wish_of(item: pytest.Item) -> Wish:
    """The cluster that a test wants.

    Raises:
        UsageError: An option is wrong.
    """
    params: Mapping[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    given = {name: params.get(parameter(name), value) for name, value in options(item).items()}
    for name, value in given.items():
        _check(name, value)
    return Wish(**given)


_LEAST = {"workers": 1, "evaluator": 0, "local_replicas": 1}


def _check(name: str, value: Any) -> None:
    if name in ("chief", "fresh", "isolate"):
        wrong = not isinstance(value, bool)
        hint = "use True or False"
    elif name == "timeout":
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        wrong = value is not None and not (number and 0 < value < math.inf)
        hint = "give a number of seconds above 0, or None"
    else:
        whole = isinstance(value, int) and not isinstance(value, bool)
        wrong = not whole or value < _LEAST[name] or (name == "evaluator" and value > 1)
        hint = "use 0 or 1" if name == "evaluator" else "give a whole number of 1 or more"
    if wrong:
        raise UsageError(f"the marker tfdist has {name}={value!r}", hint=hint)
