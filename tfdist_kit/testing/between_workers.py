"""What the workers of one test do together, without a strategy and without the network.

    gather(value) -> every worker's value      together(), parallel_assert() -> one fate for all

Whoever waits here for a worker that has failed or ended is told so at once (`ExchangeError`).
In a process that is no worker of a cluster, each acts for that process alone.
"""

from __future__ import annotations

import contextlib
import pickle
import reprlib
from collections.abc import Iterator
from typing import Any

from tfdist_kit._errors import ExchangeError
from tfdist_kit.launcher.clusters.exchange import exchange
from tfdist_kit.launcher.hangs.explain import name_ranks

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 120


def gather(value: Any) -> list[Any]:
    """Give `value` to every worker of the test, and get what each of them gave.

    Args:
        value: Anything that can be pickled.

    Returns:
        The values, in rank order.

    Raises:
        ExchangeError: A worker has failed or ended, and will not give one.
    """
    return exchange("gather", value)


def barrier() -> None:
    """Wait until every worker of the test has come here.

    Raises:
        ExchangeError: A worker has failed or ended, and will not come.
    """
    exchange("barrier", None)


def parallel_assert(condition: Any, message: str = "") -> None:
    """Assert something in all workers at once: where it is false in one, it fails in all.

    A plain ``assert`` that fails in one worker leaves the others waiting in their next
    collective. All workers have to come here.

    Args:
        condition: What has to be true in each worker.
        message: What it means when it is not.

    Raises:
        AssertionError: It is false here.
        ExchangeError: It is false in another worker; names those.
    """
    __tracebackhide__ = True
    told = exchange("parallel_assert", (bool(condition), message))
    refused = [(rank, text) for rank, (holds, text) in enumerate(told) if not holds]
    ranks = name_ranks([rank for rank, _ in refused])
    if not condition:
        where = "" if len(told) == 1 else f" (false on {ranks})"
        raise AssertionError(f"{message or 'the condition is false'}{where}")
    if refused:
        raise ExchangeError(f"the condition is false on {ranks}: {refused[0][1]}", aftermath=True)


def assert_ranks_agree(value: Any) -> None:
    """Assert that every worker of the test has the same value.

    Args:
        value: Anything that can be pickled and compared; NumPy arrays are compared as a whole.

    Raises:
        AssertionError: They differ; shows who has which. It is raised in every worker.
    """
    __tracebackhide__ = True
    values = exchange("assert_ranks_agree", value)
    groups: list[tuple[Any, list[int]]] = []
    for rank, other in enumerate(values):
        same = next((ranks for known, ranks in groups if _equal(known, other)), None)
        if same is None:
            groups.append((other, [rank]))
        else:
            same.append(rank)
    if len(groups) > 1:
        lines = (f"  {name_ranks(ranks)}: {_SHORT.repr(known)}" for known, ranks in groups)
        raise AssertionError("\n".join(("the ranks have different values:", *lines)))


@contextlib.contextmanager
def together() -> Iterator[None]:
    """Give all workers the same fate: a failure in the block in one worker fails it in all.

        with together():
            assert loss < 0.5  # not all of them come to the next collective if one fails

    Raises:
        ExchangeError: The block failed in another worker; says how.
    """
    __tracebackhide__ = True
    try:
        yield
    except Exception as error:
        with contextlib.suppress(ExchangeError):
            exchange("together", f"{type(error).__name__}: {error}")
        raise
    told = exchange("together", "")
    failed = [rank for rank, text in enumerate(told) if text]
    if failed:
        first = told[failed[0]].splitlines()[0]
        raise ExchangeError(f"the block failed on {name_ranks(failed)}: {first}", aftermath=True)


def _equal(one: Any, other: Any) -> bool:
    """Whether two values are the same to the bit, or equal and of the same type."""
    if type(one) is not type(other):
        return False
    if pickle.dumps(one) == pickle.dumps(other):
        return True
    if type(one).__module__ == "numpy" and getattr(one, "dtype", None) != other.dtype:
        return False
    try:
        same = one == other
        return bool(same.all()) if hasattr(same, "all") else bool(same)
    except Exception:  # it cannot be said of these
        return False
