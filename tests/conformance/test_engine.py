"""Claims that need the embedding engine of a TPU, or the kit's host mode in its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conformance.fakes import conformance, entry, suite
from tfdist_kit.conformance.surroundings import surroundings

pytestmark = pytest.mark.skipif(surroundings().tpu, reason="with a TPU stock can show them, too")

ENGINE = "needs = { embedding_engine = true }"
REGISTER = "".join(
    (
        entry("fake.plain.one"),
        entry("fake.engine.two", ENGINE),
        entry("fake.engine.bare", ENGINE),
        entry("fake.engine.known", ENGINE, deviation="of two"),
        "cured_by_adapter = true\n",
    )
)
CHECKS = """\
@claim("fake.plain.one")
def test_one(tf_worker):
    assert numbers_to_break.one() == 1

@claim("fake.engine.two")
def test_two(tf_worker, subject):
    assert (numbers_to_break.one(), subject.kind) == (1, "adapter")

@claim("fake.engine.bare")
def test_bare(tf_worker): pass

@claim("fake.engine.known")
def test_known(tf_worker): pass
"""
MUTANTS = """\
from tfdist_kit.conformance.marks import mutant

def broken(patch):
    import numbers_to_break
    patch(numbers_to_break, "one", lambda one: lambda: 2)

@mutant("fake.plain.one", name="plain-is-two")
def _(patch):
    broken(patch)

@mutant("fake.engine.two", name="engine-is-two")
def _(patch):
    broken(patch)
"""


@pytest.fixture
def made(tmp_path: Path) -> Path:
    suite(tmp_path / "suite", REGISTER, CHECKS, MUTANTS)
    return tmp_path


def test_without_a_tpu_only_the_adapter_shows_them(made: Path) -> None:
    stock = conformance(made, "run", "--mutants", "--suite", "suite", "--report", "stock")
    assert stock.code == 0, stock
    report = json.loads((made / "stock/report.json").read_text())
    outcomes = {claim["id"]: (claim["outcome"], claim["reason"]) for claim in report["claims"]}
    missing = "there is no TPU; --subject adapter checks it in host mode"
    assert outcomes.pop("fake.plain.one") == ("conforms", "")
    assert set(outcomes.values()) == {("not applicable", missing)}
    killed = {
        one["mutant"]: one["result"] for claim in report["claims"] for one in claim["mutants"]
    }
    assert killed == {"plain-is-two": "killed", "engine-is-two": "killed"}
    adapter = conformance(made, "run", "--suite", "suite", "--subject", "adapter")
    assert (adapter.code, adapter.out.splitlines()[0]) == (0, "4 conforms"), adapter


def test_their_mutants_are_run_with_the_subject_that_shows_them(made: Path) -> None:
    chosen = ("--every-check", "--claim", "fake.engine.two")
    result = conformance(made, "mutants", "--suite", "suite", *chosen)
    assert result.code == 0, result
    assert "killed: engine-is-two (fake.py:" in result.out


def test_they_want_a_mutant_and_say_how_they_are_run(made: Path) -> None:
    listed = conformance(made, "list", "--uncovered", "--suite", "suite")
    assert [line.split()[0] for line in listed.out.splitlines()[:-1]] == [
        *("fake.engine.bare", "fake.engine.known"),
    ]
    told = conformance(made, "explain", "fake.engine.two", "--suite", "suite").out
    assert "needs:     embedding_engine=True\n" in told
    assert "run --claim fake.engine.two --subject adapter" in told
