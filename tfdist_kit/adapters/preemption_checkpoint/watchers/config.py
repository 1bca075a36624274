"""What every watcher's factory makes in the end, and what it checks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from tfdist_kit._errors import UsageError


def termination_config(watcher: Callable[[], bool] | None, termination: Mapping[str, Any]) -> Any:
    """A `Termination` with this watcher.

    Args:
        watcher: It; None for signals alone.
        termination: What else `Termination` takes.

    Raises:
        UsageError: Something of that cannot be used.
    """
    from tfdist_kit.adapters.preemption_checkpoint.termination import Termination

    return Termination(watcher, **termination)


def seconds(name: str, value: float) -> float:
    """`value`, if it is a time of 0 seconds or more.

    Raises:
        UsageError: It is not.
    """
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value < 0:
        raise UsageError(f"{name} is {value!r}", hint="give a number of seconds, 0 or more")
    return value


def chosen(name: str, values: Any, allowed: tuple[str, ...]) -> tuple[str, ...]:
    """`values` as a tuple, if each is one of those allowed, and there are any.

    Raises:
        UsageError: It is not so.
    """
    given = (values,) if isinstance(values, str) else values
    try:
        found = tuple(given)
    except TypeError:
        found = ()
    if not found or not set(found) <= set(allowed):
        raise UsageError(f"{name} is {values!r}", hint=f"choose from {', '.join(allowed)}")
    return found
