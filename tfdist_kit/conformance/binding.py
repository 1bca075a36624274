"""Which tests check which claims, and which of them a session runs.

items, register -> bound (refusing what cannot be) -> chosen by the plan -> with mutants -> in order
"""

from __future__ import annotations

import difflib
import inspect
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pytest

from tfdist_kit._errors import UsageError
from tfdist_kit.conformance.claims import Claim
from tfdist_kit.conformance.marks import MARK
from tfdist_kit.conformance.plan import Plan
from tfdist_kit.conformance.suites import Suite
from tfdist_kit.testing import marker

MUTANT_TIMEOUT = 20.0
mutant_key = pytest.StashKey[str]()


@dataclass(frozen=True)
class Check:
    """A test that checks claims.

    Attributes:
        check: Its node id.
        claims: The claims.
        path: Its file, from the suite's folder.
        line: Where it begins there.
        source: Its text.
        size: How many processes it needs.
    """

    check: str
    claims: tuple[str, ...]
    path: str
    line: int
    source: str
    size: int

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def claims_of(item: pytest.Item) -> tuple[str, ...]:
    """The ids that a test is bound to, each once."""
    marks = reversed(list(item.iter_markers(MARK)))
    return tuple(dict.fromkeys(str(each) for mark in marks for each in mark.args))


def check_of(item: pytest.Function, suite: Suite) -> Check:
    """What is to be told of a test."""
    inside = item.path.is_relative_to(suite.folder)
    path = item.path.relative_to(suite.folder).as_posix() if inside else item.path.name
    lines, first = inspect.getsourcelines(item.function)
    source = inspect.cleandoc("\n" + "".join(lines)) + "\n"
    return Check(item.nodeid, claims_of(item), path, first, source, _shape(item)[0])


def problems(items: Sequence[pytest.Item], suite: Suite, claims: Mapping[str, Claim]) -> list[str]:
    """What is wrong with how tests are bound, a line each."""
    return [told for item in items for told in _problems_of(item, suite, claims)]


def _problems_of(item: pytest.Item, suite: Suite, claims: Mapping[str, Claim]) -> Iterator[str]:
    ids = claims_of(item)
    if not ids and item.path.is_relative_to(suite.checks):
        yield f"{item.nodeid} is bound to no claim; decorate it with @claim(...)"
    for each in ids:
        if each not in claims:
            near = difflib.get_close_matches(each, claims, n=1)
            also = f"; did you mean {near[0]}?" if near else ""
            yield f"{item.nodeid} is bound to {each!r}, which is not in the register{also}"
        elif claims[each].untestable:
            yield f"{item.nodeid} is bound to {each!r}, which the register calls untestable"


def mutant_problems(suite: Suite, claims: Iterable[str]) -> list[str]:
    """What is wrong with which claims the mutants break, a line each."""
    known = set(claims)
    return [
        f"the mutant {one.name} ({one.place}) is of {each!r}, which is not in the register"
        for one in suite.mutants()
        for each in (one.claim, *one.also)
        if each not in known
    ]


def counted(items: Iterable[pytest.Item]) -> Mapping[str, int]:
    """How many checks each claim has."""
    return Counter(each for item in items for each in claims_of(item))


def chosen(items: Sequence[pytest.Item], plan: Plan) -> list[pytest.Item]:
    """The tests that a plan has run."""
    wanted = None if plan.claims is None else set(plan.claims)
    kept = [
        item
        for item in items
        if (wanted is None or wanted & set(claims_of(item)))
        and (plan.checks is None or item.nodeid in plan.checks)
    ]
    return _smallest(kept, plan.quick) if plan.quick else kept


def _smallest(items: Sequence[pytest.Item], quick: Sequence[str]) -> list[pytest.Item]:
    """Of the claims in `quick`, the check that needs the fewest processes; of others, all."""
    best: dict[str, pytest.Item] = {}
    for item in items:
        for each in claims_of(item):
            if each not in best or _shape(item) < _shape(best[each]):
                best[each] = item
    return [
        item
        for item in items
        if any(each not in quick or best[each] is item for each in claims_of(item))
    ]


def under_mutants(items: Sequence[pytest.Item], plan: Plan) -> list[pytest.Item]:
    """The tests, and each of them again under each mutant that the plan has for its claims."""
    clones = [
        _clone(item, name)
        for name, claims in plan.mutants
        for item in items
        if isinstance(item, pytest.Function) and set(claims) & set(claims_of(item))
    ]
    return [*items, *clones]


def _clone(item: pytest.Function, mutant: str) -> pytest.Function:
    """The same test once more, in processes of its own, under a mutant."""
    clone: pytest.Function = pytest.Function.from_parent(
        item.parent,
        name=item.name,
        callspec=getattr(item, "callspec", None),
        fixtureinfo=item._fixtureinfo,
        originalname=item.originalname,
    )
    if marker.is_marked(item):
        clone.add_marker(pytest.mark.tfdist(fresh=True, timeout=_limit(item)), append=False)
    clone.stash[mutant_key] = mutant
    return clone


def _limit(item: pytest.Item) -> float:
    """How long a check may take under a mutant: many a mutant makes it hang."""
    try:
        return min(marker.wish_of(item).timeout or MUTANT_TIMEOUT, MUTANT_TIMEOUT)
    except UsageError:  # said when the test runs
        return MUTANT_TIMEOUT


def in_order(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Those that can share a cluster next to each other; mutated ones last."""
    return sorted(items, key=lambda item: (mutant_key in item.stash, _shape(item)))


def _shape(item: pytest.Item) -> tuple[int, int]:
    try:
        wish = marker.wish_of(item)
    except UsageError:  # said when the test runs
        return 0, 0
    return (wish.size if marker.is_marked(item) else 1), wish.local_replicas
