"""Which fixtures of a test are made where, and how values reach the workers.

A fixture is made once, by pytest itself, and its value is sent to every worker. Those that act on
the process they are made in are made in each worker instead: pytest's own such as ``monkeypatch``,
``tf_worker``, setup methods, fixtures of a test class, and whatever asks for one of these.
Parameters are sent where they can be, and else are those of the worker's own pytest.
"""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tfdist_kit._errors import UnsupportedVersionError, UsageError

ACTS_HERE = frozenset(
    {
        *("tf_worker", "monkeypatch", "mocker", "recwarn", "caplog", "subtests"),
        *("capsys", "capfd", "capsysbinary", "capfdbinary", "capteesys"),
    }
)
"""Fixtures that act on their process, so that those that use them do, too."""
LOOKS_HERE = frozenset(
    {
        *("request", "pytestconfig", "cache", "tmp_path_factory", "tmpdir_factory"),
        *("record_property", "record_xml_attribute", "record_testsuite_property"),
    }
)
"""Fixtures that lead to the pytest that they are made in."""
_SETUP = ("_xunit_setup", "_unittest_set")


@dataclass(frozen=True)
class Values:
    """The values of a test's fixtures, on their way to the workers.

    Attributes:
        packed: By the fixture's name, pickled together.
        unsendable: Why others cannot be sent; no test body asks for those by an argument.
        silent: The fixtures whose value is None: what they do, they do in pytest's process.
    """

    packed: bytes
    unsendable: Mapping[str, str]
    silent: tuple[str, ...] = ()


NONE = Values(pickle.dumps({}), {})


def made_in_workers(item: pytest.Function) -> frozenset[str]:
    """The fixtures of a test that are made in each worker."""
    needs = {name: _needs(item, name) for name in item.fixturenames}
    acting = {
        name
        for name in needs
        if name in ACTS_HERE or name.startswith(_SETUP) or _is_a_method(item, name)
    }
    while more := {name for name in needs.keys() - acting if needs[name] & acting}:
        acting |= more
    return frozenset(acting | (needs.keys() & LOOKS_HERE))


def _needs(item: pytest.Function, name: str) -> set[str]:
    """The fixtures that a fixture asks for by its arguments."""
    found: set[str] = set()
    for definition in _definitions(item, name):
        found.update(definition.argnames)
    return found - {name}


def _is_a_method(item: pytest.Function, name: str) -> bool:
    """Whether a fixture belongs to a test class: it may act on the instance."""
    definitions = _definitions(item, name)
    return bool(definitions) and "::" in definitions[-1].baseid


def _definitions(item: pytest.Function, name: str) -> Sequence[Any]:
    """The definitions of a fixture; pytest has no public way to them."""
    try:
        definitions: Sequence[Any] = item._fixtureinfo.name2fixturedefs.get(name, ())
    except AttributeError as error:
        raise UnsupportedVersionError(
            f"pytest {pytest.__version__} keeps fixtures elsewhere: {error}",
            hint="use pytest 8.2 to 9, or report this",
        ) from error
    return definitions


def pack(item: pytest.Function, there: frozenset[str]) -> Values:
    """Turn the values of a test's fixtures into bytes.

    Args:
        item: The test, set up.
        there: What is made in the workers.

    Raises:
        UsageError: The test body, or a fixture made in the workers, needs one that cannot be sent.
    """
    values = {name: value for name, value in item.funcargs.items() if name not in there}
    troubles = {name: why for name, value in values.items() if (why := _trouble(value))}
    for name in _parameters_as_given(item) & troubles.keys():  # every process has these
        del values[name], troubles[name]
    needed = _arguments(item).union(*(_needs(item, name) for name in there))
    for name in sorted(needed & troubles.keys()):
        raise UsageError(
            f"the fixture {name!r} gives a {type(values[name]).__name__}, which cannot be sent to "
            f"the workers: {troubles[name]}",
            hint=f"make it in the test's body, or in each worker: let {name} ask for tf_worker",
        )
    sent = {name: value for name, value in values.items() if name not in troubles}
    given = getattr(item, "callspec", None)
    silent = (name for name, value in sent.items() if value is None)
    return Values(
        pickle.dumps(sent),
        troubles,
        tuple(name for name in silent if given is None or name not in given.params),
    )


class NotSent:
    """Stands in a worker for a value that could not be sent, and says so when it is used.

    Args:
        name: The fixture.
        why: Why it could not be sent.
    """

    def __init__(self, name: str, why: str) -> None:
        self.__dict__["_told"] = (name, why)

    def __getattr__(self, _: str) -> Any:
        self()

    def __call__(self, *_: Any, **__: Any) -> Any:
        """Refuse."""
        name, why = self.__dict__["_told"]
        raise UsageError(
            f"the value of the fixture {name!r} cannot be sent to the workers: {why}",
            hint=f"make it in each worker: let {name} ask for tf_worker",
        )


def _parameters_as_given(item: pytest.Function) -> set[str]:
    """The fixtures whose value is just what the test was parametrised with, such as a lambda."""
    given = item.callspec.params if hasattr(item, "callspec") else {}
    return {name for name, value in given.items() if item.funcargs.get(name) is value}


def _arguments(item: pytest.Function) -> set[str]:
    return set(inspect.signature(item.function).parameters)


def _trouble(value: Any) -> str:
    """Why a value cannot be sent; an empty string if it can."""
    try:
        pickle.dumps(value)
    except Exception as error:
        return str(error) or type(error).__name__
    return ""
