"""The sub-commands that run nothing, and what all of them refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conformance.fakes import conformance, entry, suite
from tfdist_kit.cli.main import main, parse

REGISTER = "".join(
    (
        entry("fake.ok.one"),
        entry("fake.ok.two", level="extended"),
        entry("fake.ok.three", "needs = { workers = 3, graph = true }", level="informative"),
        entry("fake.known.four", deviation="x"),
        entry("fake.no.five", 'untestable = "it is advice"', level="informative"),
    )
)
CHECKS = """\
@claim("fake.ok.one")
@pytest.mark.tfdist(workers=[1, 2])
def test_one(tf_worker): pass

@claim("fake.ok.two")
def test_two(tf_worker): pass

@claim("fake.known.four")
def test_four(tf_worker): assert False, "x"
"""
MUTANTS = """\
from tfdist_kit.conformance.marks import mutant

@mutant("fake.ok.one", name="one-is-two")
def _(patch): pass
"""


@pytest.fixture
def made(tmp_path: Path) -> Path:
    suite(tmp_path / "suite", REGISTER, CHECKS, MUTANTS)
    return tmp_path


def test_list(made: Path) -> None:
    result = conformance(made, "list", "--suite", "suite")
    assert result.code == 0, result
    assert [line.split()[:4] for line in result.out.splitlines()] == [
        ["fake.ok.one", "core", "2", "checks"],
        ["fake.ok.two", "extended", "no", "mutant"],
        ["fake.ok.three", "informative", "no", "check"],
        ["fake.known.four", "core", "1", "checks"],
        ["fake.no.five", "informative", "untestable", "About"],
        ["claims:", "5"],
    ]


def test_list_what_is_uncovered(made: Path) -> None:
    result = conformance(made, "list", "--uncovered", "--suite", "suite")
    assert result.code == 3, result
    assert [line.split()[0] for line in result.out.splitlines()] == [
        "fake.ok.two",
        "fake.ok.three",
        "claims:",
    ]
    core = conformance(made, "list", "--uncovered", "--suite", "suite", "--level", "core")
    assert (core.code, core.out) == (0, "claims: 0\n")


def test_explain(made: Path) -> None:
    result = conformance(made, "explain", "fake.ok.one", "--suite", "suite")
    assert result.code == 0, result
    file = made / "suite" / "checks" / "test_fake.py"
    assert result.out.splitlines() == [
        "fake.ok.one",
        "  About fake.ok.one.",
        "document:  fake, under top",
        "kind:      behaviour, core",
        "needs:     one worker",
        f"check:     {file}:9 checks/test_fake.py::test_one[workers=2]",
        "mutant:    one-is-two (fake.py:3)",
        f"run it:    tfdist conformance run --claim fake.ok.one --suite {made / 'suite'}",
    ]
    deviates = conformance(made, "explain", "fake.known.four", "--suite", "suite")
    assert "known deviation: TensorFlow >=2: something else\n" in deviates.out
    needs = conformance(made, "explain", "fake.ok.three", "--suite", "suite")
    assert "needs:     workers=3, graph=True\n" in needs.out
    assert "lacks:     no check\n" in needs.out
    advice = conformance(made, "explain", "fake.no.five", "--suite", "suite")
    assert advice.out.endswith("untestable: it is advice\n")


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["run", "--suite", "suite", "--claim", "fake.ok.tow"], "did you mean 'fake.ok.two'?"),
        (["run", "--suite", "suite", "--document", "faek"], "no document 'faek'"),
        (["run", "--suite", "suite", "-n", "0"], "-n is 0"),
        (["run", "--suite", "suite", "--profile", "most"], "invalid choice: 'most'"),
        (["run", "--suite", "suite", "--subject", "other"], "invalid choice: 'other'"),
        (["run", "--suite", "nowhere"], "nowhere is no suite: it has no folder register"),
        (["mutants", "--suite", "suite", "--report", "nowhere"], "cannot be read"),
        (["explain", "fake.ok.tow", "--suite", "suite"], "did you mean 'fake.ok.two'?"),
        (["list", "--suite", "suite", "--level", "high"], "no level 'high'"),
        (["report", "nowhere"], "nowhere cannot be read"),
        (["diff", "nowhere", "nowhere"], "nowhere cannot be read"),
        ([], "required: COMMAND"),
    ],
)
def test_usage(
    made: Path,
    args: list[str],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(made)
    try:
        code = main(parse(["tfdist", "conformance", *args]))
    except SystemExit as left:
        code = int(left.code or 0)
    assert code == 2
    assert told in capsys.readouterr().err


def test_a_register_that_is_wrong_is_wrong_usage(made: Path) -> None:
    file = made / "suite" / "register" / "fake.toml"
    file.write_text(file.read_text().replace('level = "core"', 'level = "high"', 1))
    for args in (["run"], ["list"]):
        result = conformance(made, *args, "--suite", "suite")
        assert result.code == 2, result
        assert "fake.toml: fake.ok.one: level is 'high'" in result.err


def test_checks_that_cannot_be_read(made: Path) -> None:
    (made / "suite" / "checks" / "test_fake.py").write_text("def (")
    result = conformance(made, "list", "--suite", "suite")
    assert result.code == 2, result
    assert "SyntaxError" in result.err


def test_diff(made: Path) -> None:
    for name in ("one", "two"):
        args = ("--claim", "fake.ok.one", "--claim", "fake.ok.two")
        conformance(made, "run", "--suite", "suite", "--report", name, *args)
    same = conformance(made, "diff", "one", "two/report.json")
    assert same.code == 0, same
    assert same.out.splitlines() == [
        "one: coverage 100 % (2 of 2 testable claims), conformance 100 % (2 of 2 answered claims)",
        "two/report.json: coverage 100 % (2 of 2 testable claims), "
        "conformance 100 % (2 of 2 answered claims)",
    ]
    report = json.loads((made / "two" / "report.json").read_text())
    report["claims"][0]["outcome"] = "deviates"
    del report["claims"][1]
    (made / "two" / "report.json").write_text(json.dumps(report))
    other = conformance(made, "diff", "one", "two")
    assert other.code == 1
    assert other.out.splitlines()[:2] == [
        "fake.ok.one  conforms -> deviates",
        "fake.ok.two  conforms -> not checked",
    ]
