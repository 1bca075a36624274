"""The kit's checks as markers: what the marked test returns is checked, in every worker.

tfdist_replicas_agree               variables
tfdist_each_row_once(rows=...)      a data set
tfdist_same_as_single_process(...)  the positional arguments of `assert_same_as_single_process`
"""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from tfdist_kit._errors import UsageError
from tfdist_kit.testing import marker


def call_and_check(item: pytest.Function) -> bool:
    """Call the body of a marked test, and check what it returns; tells whether it is marked.

    Raises:
        AssertionError: What was returned does not pass.
        UsageError: Nothing was returned.
    """
    __tracebackhide__ = True
    marks = [mark for mark in item.iter_markers() if mark.name in marker.CHECKS]
    if not marks:
        return False
    names = inspect.signature(item.function).parameters
    returned = item.obj(**{name: item.funcargs[name] for name in names if name in item.funcargs})
    for mark in marks:
        _check(mark, returned)
    return True


def _check(mark: pytest.Mark, returned: Any) -> None:
    __tracebackhide__ = True
    if returned is None:
        raise UsageError(
            f"the test is marked {mark.name}, and returns nothing",
            hint="return what is to be checked",
        )
    from tfdist_kit import testing

    check = getattr(testing, mark.name.replace("tfdist_", "assert_"))
    several = mark.name == marker.CHECKS[0]
    check(*(returned if several else (returned,)), **mark.kwargs)
