"""The suite under pytest itself, as ``pytest --pyargs tfdist_kit.conformance`` runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.fakes import entry, suite
from tests.testing.sessions import Session, session

PLUGIN = ("-p", "tfdist_kit.conformance.plugin", "--conformance-suite=.", "checks")
REGISTER = "".join(
    (
        entry("fake.ok.one"),
        entry("fake.bad.two"),
        entry("fake.known.three", deviation="3 == 4"),
        entry("fake.known.no-longer", deviation="x"),
        entry("fake.known.on-two", deviation="of two"),
        entry("fake.none.gpu", "needs = { gpu = true }"),
    )
)
CHECKS = """\
@claim("fake.ok.one")
@pytest.mark.tfdist(workers=1)
class TestOne:
    def test_one(self, subject, tf_worker):
        assert numbers_to_break.one() == 1
        (HERE / "subject").write_text(subject.kind)

@claim("fake.bad.two")
def test_two(tf_worker): assert tf_worker.rank == 0

@claim("fake.known.three")
def test_three(): assert 3 == 4

@claim("fake.known.three", "fake.ok.one")
def test_three_and_one(): assert 3 == 4

@claim("fake.known.no-longer")
def test_no_longer(): pass

@claim("fake.known.on-two")
@pytest.mark.tfdist(workers=[1, 2])
def test_on_two(tf_worker): assert tf_worker.size == 1, "of two"

@claim("fake.none.gpu")
def test_gpu(): pass
"""
MUTANTS = """\
from tfdist_kit.conformance.marks import mutant

@mutant("fake.ok.one", name="one-is-two")
def _(patch):
    import numbers_to_break
    patch(numbers_to_break, "one", lambda one: lambda: 2)
"""


@pytest.mark.parametrize("more", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_a_session(tmp_path: Path, more: tuple[str, ...]) -> None:
    suite(tmp_path, REGISTER, CHECKS)
    ran = session(tmp_path, *PLUGIN, "-rx", *more)
    assert {name: went.outcome for name, went in ran.tests.items()} == {
        "TestOne::test_one": "passed",
        "test_two": "failed",
        "test_three": "xfailed",
        "test_three_and_one": "failed",
        "test_no_longer": "passed",
        "test_on_two[workers=1]": "passed",
        "test_on_two[workers=2]": "xfailed",
        "test_gpu": "skipped",
    }, ran.out
    assert "test_three - known deviation: something else\n" in ran.out
    assert "there is no GPU" in ran["test_gpu"].text
    told = "claims: 2 known deviation, 3 deviates, 1 not applicable"
    assert told in ran.out
    assert "fake.known.no-longer: it no longer deviates" in ran.out
    assert ran.code == 1


def only(tmp_path: Path, name: str, *more: str) -> Session:
    suite(tmp_path, REGISTER, CHECKS, MUTANTS)
    return session(tmp_path, *PLUGIN, "-k", name, *more)


def test_what_no_longer_deviates_fails_the_session(tmp_path: Path) -> None:
    ran = only(tmp_path, "test_no_longer")
    assert ran.code == 1
    assert ran["test_no_longer"].outcome == "passed"


@pytest.mark.parametrize(
    "chosen", [("-k", "test_on_two and 1"), ("checks/test_fake.py::test_on_two[workers=1]",)]
)
def test_that_is_not_said_if_some_of_its_checks_did_not_run(
    tmp_path: Path, chosen: tuple[str, ...]
) -> None:
    suite(tmp_path, REGISTER, CHECKS)
    ran = session(tmp_path, *(PLUGIN if chosen[0] == "-k" else PLUGIN[:-1]), *chosen)
    assert (ran.code, len(ran.tests)) == (0, 1), ran.out
    assert "no longer" not in ran.out


@pytest.mark.parametrize("kind", ["stock", "adapter"])
def test_the_subject_is_the_one_that_was_asked_for(tmp_path: Path, kind: str) -> None:
    ran = only(tmp_path, "test_one", f"--conformance-subject={kind}")
    assert ran.code == 0, ran.out
    assert (tmp_path / "checks" / "subject").read_text() == kind


def test_a_mutant_by_hand(tmp_path: Path) -> None:
    ran = only(tmp_path, "test_one", "--conformance-mutant=one-is-two")
    assert "assert 2 == 1" in ran["TestOne::test_one"].text
    unknown = only(tmp_path, "test_one", "--conformance-mutant=one-is-to")
    assert "there is no mutant 'one-is-to'; did you mean 'one-is-two'?" in unknown.out


def test_an_unknown_claim_is_refused(tmp_path: Path) -> None:
    suite(tmp_path, REGISTER, '@claim("fake.ok.oen")\ndef test_it(): pass\n')
    ran = session(tmp_path, *PLUGIN)
    assert ran.code == 4
    assert "'fake.ok.oen', which is not in the register; did you mean fake.ok.one?" in ran.out


def test_a_register_that_is_wrong_is_refused(tmp_path: Path) -> None:
    suite(tmp_path, REGISTER.replace("core", "high", 1), CHECKS)
    ran = session(tmp_path, *PLUGIN)
    assert ran.code == 4
    assert "fake.toml: fake.ok.one: level is 'high'" in ran.out
    assert "INTERNALERROR" not in ran.out


def test_the_kits_own_suite_needs_no_option(tmp_path: Path) -> None:
    ran = session(tmp_path, "--pyargs", "tfdist_kit.conformance", "--collect-only", "-q")
    assert ran.code in (0, 5), ran.out
    assert "ERROR" not in ran.out


def test_other_tests_of_a_session_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text("def test_mine(): pass\n")
    ran = session(tmp_path, "-p", "tfdist_kit.conformance.plugin")
    assert (ran.code, ran["test_mine"].outcome) == (0, "passed")
