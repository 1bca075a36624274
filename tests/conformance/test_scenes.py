"""Programs that end their processes, played once for several checks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import Result
from tests.conformance.fakes import conformance, entry, once, suite

CLAIMS = ("codes", "said", "once", "goes-on", "hangs", "fails", "in-a-worker")
PROGRAMS = """\
import os, signal, sys, time
import numbers_to_break

def ends(stage, how):
    stage.say("one", number=numbers_to_break.one(), rank=stage.rank)
    with open(f"{stage.work}/{stage.rank}", "a") as file:
        file.write(how)
    if how == "hang" and stage.rank == 1:
        time.sleep(60)
    {
        "return": lambda: None,
        "hang": lambda: None,
        "code": lambda: sys.exit(7),
        "nothing": lambda: sys.exit(),
        "text": lambda: sys.exit("because"),
        "error": lambda: 1 / 0,
        "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "meeting": lambda: stage.meet("here"),
    }[how]()
"""
CHECKS = """\
import programs
pytestmark = []

@claim("fake.scene.codes")
@pytest.mark.parametrize(
    "how, code", [("return", 0), ("code", 7), ("nothing", 0), ("text", 1), ("error", 1),
                  ("killed", -9), ("meeting", 0)])
def test_codes(scenes, how, code):
    scenes.play(programs.ends, how=how).ended(code, code)

@claim("fake.scene.said")
def test_said(scenes):
    first, second = scenes.play(programs.ends, how="error").parts
    assert (second.one("one")["number"], second.one("one")["rank"]) == (1, 1)
    assert first.one("raised")["type"] == "ZeroDivisionError"
    assert first.one("one").at <= first.one("raised").at

@claim("fake.scene.once")
@pytest.mark.parametrize("number", [1, 2])
def test_once(scenes, number):
    scene = scenes.play(programs.ends, workers=1, how="code").ended(7)
    assert scene.files() == ["0"]
    assert (scene.folder / "0").read_text() == "code"

@claim("fake.scene.goes-on")
def test_goes_on(scenes):
    before = scenes.play(programs.ends, workers=1, how="code")
    after = scenes.play(programs.ends, workers=1, how="return", after=before).ended(0)
    assert (after.folder / "0").read_text() == "codereturn"
    assert (before.folder / "0").read_text() == "code"

@claim("fake.scene.hangs")
def test_hangs(scenes):
    scene = scenes.play(programs.ends, how="hang", limit=1.0)
    assert scene.codes == (0, None)
    assert "sleep" in scene.parts[1].where or "programs.py" in scene.parts[1].where

@claim("fake.scene.fails")
def test_fails(scenes):
    scenes.play(programs.ends, workers=1, how="code").ended(0)

@claim("fake.scene.in-a-worker")
@pytest.mark.tfdist(workers=1)
def test_in_a_worker(scenes): pass
"""
MUTANTS = """\
from tfdist_kit.conformance.marks import mutant

@mutant("fake.scene.said", name="one-is-two")
def _(patch):
    import numbers_to_break
    patch(numbers_to_break, "one", lambda one: lambda: 2)

@mutant("fake.scene.goes-on", name="changes-nothing-that-is-looked-at")
def _(patch):
    import numbers_to_break
    patch(numbers_to_break, "one", lambda one: lambda: 2)

@mutant("fake.scene.codes", name="is-broken-itself")
def _(patch):
    return 1 / 0
"""


def made(folder: Path) -> Result:
    """The suite, run with its mutants."""
    register = "".join(entry(f"fake.scene.{name}") for name in CLAIMS)
    suite(folder, register, CHECKS, MUTANTS)
    (folder / "checks/programs.py").write_text(PROGRAMS, encoding="utf-8")
    return conformance(folder, "run", "--suite", ".", "--mutants", "--report", "out")


@pytest.fixture
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """What the run has found: outcomes with reasons by claim, and results by mutant."""
    folder, _ = once(tmp_path_factory, "scenes", made)
    told = json.loads((folder / "out/report.json").read_text())
    return {
        **{claim["id"].rpartition(".")[2]: claim for claim in told["claims"]},
        **{one["mutant"]: one for claim in told["claims"] for one in claim["mutants"]},
    }


@pytest.mark.parametrize("claim", ["codes", "said", "once", "goes-on", "hangs"])
def test_scenes_tell_how_each_process_ended_and_what_it_said(
    report: dict[str, dict[str, str]], claim: str
) -> None:
    assert (report[claim]["outcome"], report[claim]["reason"]) == ("conforms", "")


def test_an_end_that_is_not_the_expected_one_fails_the_check(
    report: dict[str, dict[str, str]],
) -> None:
    assert report["fails"]["outcome"] == "deviates"
    assert "exit codes (7,) and not (0,)" in report["fails"]["reason"]


def test_scenes_cannot_be_played_within_a_worker(report: dict[str, dict[str, str]]) -> None:
    assert report["in-a-worker"]["outcome"] == "inconclusive"
    assert "pytest's own process" in report["in-a-worker"]["reason"]


def test_a_mutant_breaks_the_workers_of_a_scene(report: dict[str, dict[str, str]]) -> None:
    results = {name: one["result"] for name, one in report.items() if "result" in one}
    assert results == {
        "one-is-two": "killed",
        "changes-nothing-that-is-looked-at": "survived",
        "is-broken-itself": "survived",
    }
    assert "ZeroDivisionError" in report["is-broken-itself"]["text"]
