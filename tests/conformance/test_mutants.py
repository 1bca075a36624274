"""``tfdist conformance mutants``: what kills a mutant, and what does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import Result
from tests.conformance.fakes import conformance, entry, once, suite
from tfdist_kit._errors import UsageError
from tfdist_kit.conformance.marks import MutantError, load_mutants, patch

REGISTER = "".join(
    (
        entry("fake.one.is-one"),
        entry("fake.one.by-cluster"),
        entry("fake.one.is-positive"),
        entry("fake.known.deviates", deviation="2 == 3"),
    )
)
CHECKS = """\
@claim("fake.one.is-one")
@pytest.mark.tfdist(workers=[1, 2], timeout=3)
def test_one(tf_worker):
    assert numbers_to_break.one() == 1

def one_there():
    return numbers_to_break.one()

@claim("fake.one.by-cluster")
@pytest.mark.tfdist(workers=1, timeout=3)
def test_driven(tf_cluster):
    assert tf_cluster.run(one_there) == [1]

@claim("fake.one.is-positive")
@pytest.mark.tfdist(workers=1, timeout=3)
def test_positive():
    assert numbers_to_break.one() > 0

@claim("fake.known.deviates")
@pytest.mark.tfdist(workers=1)
def test_known():
    assert 2 == 3
"""
MUTANTS = """\
import time
from tfdist_kit.conformance.marks import mutant

def broken(patch, value):
    import numbers_to_break
    patch(numbers_to_break, "one", lambda one: lambda: value)

@mutant("fake.one.is-one", name="one-is-two", also=("fake.one.by-cluster",))
def _(patch):
    broken(patch, 2)

@mutant("fake.one.by-cluster", name="one-is-three")
def _(patch):
    broken(patch, 3)

@mutant("fake.one.is-positive", name="one-is-two-again")
def _(patch):
    broken(patch, 2)

@mutant("fake.one.is-positive", name="one-hangs")
def _(patch):
    import numbers_to_break
    patch(numbers_to_break, "one", lambda one: lambda: time.sleep(60))

@mutant("fake.one.is-positive", name="does-not-fit")
def _(patch):
    import numbers_to_break
    patch(numbers_to_break, "two", lambda two: lambda: 3)

@mutant("fake.known.deviates", name="of-a-deviation")
def _(patch):
    broken(patch, 2)
"""


def both(folder: Path) -> Result:
    """Run the suite for its report, then its mutants."""
    suite(folder / "suite", REGISTER, CHECKS, MUTANTS)
    conformance(folder, "run", "--suite", "suite", "--report", "out")
    args = ("--report", "out", "--every-check", "-n", "2")
    return conformance(folder, "mutants", "--suite", "suite", *args)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    return once(tmp_path_factory, "mutants", both)


def test_what_kills_a_mutant(ran: tuple[Path, Result]) -> None:
    report = json.loads((ran[0] / "out" / "report.json").read_text())
    found = {one["mutant"]: one for claim in report["claims"] for one in claim["mutants"]}
    assert {name: one["result"] for name, one in found.items()} == {
        "one-is-two": "killed",
        "one-is-three": "killed",
        "one-is-two-again": "survived",
        "one-hangs": "killed",
        "does-not-fit": "survived",
        "of-a-deviation": "not run",
    }, ran[1]
    assert "assert 2 == 1" in found["one-is-two"]["text"]
    assert "timed out" in found["one-hangs"]["text"]
    assert "numbers_to_break has no 'two' that could be broken" in found["does-not-fit"]["text"]
    assert found["one-is-two-again"]["text"] == "every check of the claim still holds"


def test_a_survivor_fails_the_suite_and_is_in_the_score(ran: tuple[Path, Result]) -> None:
    folder, result = ran
    assert result.code == 1
    assert "mutants killed: 3 of 5\n" in result.out
    assert "survived: one-is-two-again (fake.py:" in result.out
    report = json.loads((folder / "out" / "report.json").read_text())
    assert report["summary"]["mutation"] == {"count": 3, "of": 5, "percent": 60.0}
    assert "mutation 60 % (3 of 5 mutants)" in (folder / "out" / "summary.md").read_text()
    assert report["summary"]["conformance"] == {"count": 3, "of": 4, "percent": 75.0}


def test_claims_that_break_although_no_mutant_names_them(ran: tuple[Path, Result]) -> None:
    report = json.loads((ran[0] / "out" / "report.json").read_text())
    also = {one["mutant"]: one["also"] for claim in report["claims"] for one in claim["mutants"]}
    assert also["one-is-two"] == []
    assert also["one-is-three"] == ["fake.one.is-one"]
    assert "it also breaks fake.one.is-one, which it does not name\n" in ran[1].out


def test_one_claims_mutants(ran: tuple[Path, Result], tmp_path: Path) -> None:
    args = ("--suite", ran[0] / "suite", "--claim", "fake.one.is-one")
    result = conformance(tmp_path, "mutants", *args)
    assert (result.code, result.out.splitlines()[-1]) == (0, "mutants killed: 1 of 1"), result


def test_run_with_mutants_is_one_report(ran: tuple[Path, Result], tmp_path: Path) -> None:
    args = ("--suite", ran[0] / "suite", "--claim", "fake.one.by-cluster", "--report", "out")
    result = conformance(tmp_path, "run", "--mutants", *args)
    assert result.code == 0, result
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["summary"]["mutation"] == {"count": 1, "of": 1, "percent": 100.0}


@pytest.mark.parametrize(
    ("mutants", "told"),
    [
        (MUTANTS.replace('"fake.known.deviates"', '"fake.no.such"'), "'fake.no.such', which is"),
        (MUTANTS.replace("one-is-three", "one-is-two"), "there are two mutants 'one-is-two'"),
    ],
)
def test_mutants_that_are_wrong(tmp_path: Path, mutants: str, told: str) -> None:
    suite(tmp_path / "suite", REGISTER, CHECKS, mutants)
    result = conformance(tmp_path, "mutants", "--suite", "suite")
    assert result.code == 2, result
    assert told in result.err


class Owner:
    value = 1

    def method(self) -> str:
        return "method"

    @staticmethod
    def static() -> str:
        return "static"

    @classmethod
    def of_class(cls) -> str:
        return cls.__name__

    @property
    def given(self) -> str:
        return "given"


def test_patch_replaces_every_kind_of_attribute() -> None:
    class Own(Owner):
        pass

    patch(Own, "method", lambda method: lambda self: f"no {method(self)}")
    patch(Own, "static", lambda static: lambda: f"no {static()}")
    patch(Own, "of_class", lambda of_class: lambda cls: f"no {of_class(cls)}")
    patch(Own, "given", lambda given: property(lambda self: f"no {given.fget(self)}"))
    patch(Own, "value", lambda value: value + 1)
    own = Own()
    found = [own.method(), own.static(), Own.of_class(), own.given, str(own.value)]
    assert found == ["no method", "no static", "no Own", "no given", "2"]
    assert Owner().method() == "method"


def test_patch_refuses_what_breaks_nothing() -> None:
    with pytest.raises(MutantError, match="Owner has no 'nothing'"):
        patch(Owner, "nothing", lambda _: None)
    with pytest.raises(MutantError, match="is that itself"):
        patch(Owner, "method", lambda method: method)


def test_helpers_of_mutants_are_not_read_as_mutants(tmp_path: Path) -> None:
    line = "from tfdist_kit.conformance.marks import mutant\n@mutant('a.b.c', name='{}')\n"
    for name in ("_helper", "one", "two"):
        (tmp_path / f"{name}.py").write_text(line.format(name) + "def _(patch): pass\n")
    assert [one.name for one in load_mutants(tmp_path)] == ["one", "two"]
    (tmp_path / "three.py").write_text(line.format("one") + "def _(patch): pass\n")
    with pytest.raises(UsageError, match="two mutants 'one'"):
        load_mutants(tmp_path)
