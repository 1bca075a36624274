"""``tfdist conformance run`` on checks that end in every way. No TensorFlow in the workers."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.commands import Command, Result
from tests.conformance.fakes import ENV, conformance, entry, once, suite

REGISTER = "".join(
    (
        entry("fake.ok.held"),
        entry("fake.ok.driven", level="extended"),
        entry("fake.bad.deviates", "needs = { workers = 2 }"),
        entry("fake.bad.later"),
        entry("fake.known.deviates", deviation="3 == 4"),
        entry("fake.known.only-on-two", deviation="of two"),
        entry("fake.known.otherwise", deviation="never"),
        entry("fake.known.no-longer", deviation="x"),
        entry("fake.bad.hangs"),
        entry("fake.bad.crashes"),
        entry("fake.bad.flaky"),
        entry("fake.rig.fixture"),
        entry("fake.rig.killed"),
        entry("fake.none.skipped", level="informative"),
        entry("fake.none.gpu", "needs = { gpu = true }"),
        entry("fake.none.untestable", 'untestable = "it is advice"', level="informative"),
        entry("fake.none.unbound", level="informative"),
    )
)
CHECKS = """\
@claim("fake.ok.held")
@pytest.mark.tfdist(workers=[1, 2])
def test_held(tf_worker, subject):
    assert subject.kind == "stock"

@claim("fake.ok.driven")
def test_driven(tf_cluster):
    assert tf_cluster.run(os.getppid)

@claim("fake.bad.deviates")
def test_deviates(tf_worker):
    assert tf_worker.rank == 0, f"at {hex(id(tf_worker))} in {__file__}"

@claim("fake.known.deviates")
@pytest.mark.tfdist(workers=1)
def test_known():
    assert 3 == 4

@claim("fake.known.only-on-two")
@pytest.mark.tfdist(workers=[1, 2])
def test_only_on_two(tf_worker):
    assert tf_worker.size == 1, "of two"

@claim("fake.known.otherwise")
@pytest.mark.tfdist(workers=1)
def test_otherwise():
    raise KeyError("other")

@claim("fake.known.no-longer")
@pytest.mark.tfdist(workers=1)
def test_no_longer(): pass

@claim("fake.bad.hangs")
@pytest.mark.tfdist(timeout=1)
def test_hangs(tf_worker):
    if tf_worker.rank:
        time.sleep(60)

@claim("fake.bad.crashes")
@pytest.mark.tfdist(workers=1)
def test_crashes():
    os.kill(os.getpid(), signal.SIGSEGV)

@claim("fake.rig.killed")
@pytest.mark.tfdist(workers=1)
def test_killed():
    os.kill(os.getpid(), signal.SIGKILL)

@claim("fake.bad.flaky", "fake.bad.later")
@pytest.mark.tfdist(workers=1)
def test_flaky():
    ran = HERE / "ran"
    before = ran.exists()
    ran.touch()
    assert before, "the first time"

@pytest.fixture
def broken(tf_worker):
    raise KeyError("fixture")

@claim("fake.rig.fixture")
@pytest.mark.tfdist(workers=1)
def test_fixture(broken): pass

@claim("fake.none.skipped")
@pytest.mark.tfdist(workers=1)
def test_skipped(tf_worker):
    pytest.skip("this machine has no sound")

@claim("fake.none.gpu")
def test_gpu(): pass
"""
OUTCOMES = {
    "fake.ok.held": ("conforms", ""),
    "fake.ok.driven": ("conforms", ""),
    "fake.bad.deviates": ("deviates", "at 0xADDRESS in checks/test_fake.py"),
    "fake.bad.later": ("flaky", "was: failed, held"),
    "fake.known.deviates": ("known deviation", "something else"),
    "fake.known.only-on-two": ("known deviation", "something else"),
    "fake.known.otherwise": ("deviates", "otherwise than is known"),
    "fake.known.no-longer": ("deviates", "no longer deviates"),
    "fake.bad.hangs": ("timed out", "timed out: "),
    "fake.bad.crashes": ("deviates", "SIGSEGV"),
    "fake.bad.flaky": ("flaky", "was: failed, held"),
    "fake.rig.fixture": ("inconclusive", "fixture"),
    "fake.rig.killed": ("inconclusive", "SIGKILL"),
    "fake.none.skipped": ("not applicable", "this machine has no sound"),
    "fake.none.gpu": ("not applicable", "there is no GPU"),
    "fake.none.untestable": ("untestable", "it is advice"),
    "fake.none.unbound": ("inconclusive", "no check is bound to it"),
}


def both(folder: Path) -> Result:
    """Run twice, the second time in several processes."""
    suite(folder / "suite", REGISTER, CHECKS)
    first = conformance(folder, "run", "--suite", "suite", "--report", "first")
    (folder / "suite" / "checks" / "ran").unlink()
    conformance(folder, "run", "--suite", "suite", "--report", "second", "-n", "2")
    return first


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    return once(tmp_path_factory, "run", both)


def read(folder: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((folder / "first" / "report.json").read_text())
    return report


def test_every_claim_has_its_outcome(ran: tuple[Path, Result]) -> None:
    folder, result = ran
    claims = {claim["id"]: claim for claim in read(folder)["claims"]}
    assert {name: claim["outcome"] for name, claim in claims.items()} == {
        name: outcome for name, (outcome, _) in OUTCOMES.items()
    }, result
    for name, (_, reason) in OUTCOMES.items():
        assert reason in claims[name]["reason"]
    assert result.code == 1


def test_two_runs_give_the_same_bytes(ran: tuple[Path, Result]) -> None:
    folder, _ = ran
    first, second = ((folder / run / "report.json").read_text() for run in ("first", "second"))
    assert first == second
    assert str(folder) not in first


def test_the_evidence_is_that_of_each_rank(ran: tuple[Path, Result]) -> None:
    claims = {claim["id"]: claim for claim in read(ran[0])["claims"]}
    [check] = claims["fake.bad.deviates"]["checks"]
    assert [rank["kind"] for rank in check["ranks"]] == ["passed", "failed"]
    assert check["ranks_differ"]
    assert claims["fake.bad.deviates"]["findings"] == [
        "the ranks differ in checks/test_fake.py::test_deviates: "
        "rank 0 (worker:0) passed, rank 1 (worker:1) failed"
    ]
    assert check["source"].startswith('@claim("fake.bad.deviates")\ndef test_deviates')
    assert (check["path"], check["tries"]) == ("checks/test_fake.py", ["failed", "failed"])
    assert len(claims["fake.ok.held"]["checks"]) == 2
    assert not any(claim["checks"] for name, claim in claims.items() if name.endswith("unbound"))


def test_the_numbers(ran: tuple[Path, Result]) -> None:
    folder, result = ran
    summary = read(folder)["summary"]
    assert summary["coverage"] == {"count": 15, "of": 16, "percent": 93.7}
    assert summary["conformance"] == {"count": 2, "of": 11, "percent": 18.1}
    assert summary["mutation"] is None
    assert "coverage 93.7 % (15 of 16 testable claims)\n" in result.out
    assert "conformance 18.1 % (2 of 11 answered claims)\n" in result.out


def test_times_are_apart(ran: tuple[Path, Result]) -> None:
    timing = json.loads((ran[0] / "first" / "timing.json").read_text())
    assert timing["checks/test_fake.py::test_hangs"] >= 1
    assert len(timing) == 16


def test_progress_is_a_line_for_each_claim(ran: tuple[Path, Result]) -> None:
    lines = ran[1].err.splitlines()
    assert lines[0] == "checks: 16"
    assert "[15/16] " in ran[1].err
    assert sum(line.endswith("conforms: fake.ok.held") for line in lines) == 1
    assert "once more (2 of 2): " in ran[1].err


def test_what_a_user_is_told_of_a_deviation(ran: tuple[Path, Result]) -> None:
    assert "deviates: fake.known.no-longer: About fake.known.no-longer.\n" in ran[1].out
    assert "it no longer deviates; the register still says: something else" in ran[1].out


GOOD = "fake.ok.held", "fake.known.deviates", "fake.none.gpu", "fake.none.untestable"


@pytest.mark.parametrize(
    ("args", "code", "claims"),
    [
        ([f"--claim={name}" for name in GOOD], 0, 4),
        (["--claim=fake.rig.fixture"], 3, 1),
        (["--claim=fake.none.unbound", "--claim=fake.ok.held"], 3, 2),
        (["--claim=fake.none.untestable"], 0, 1),
    ],
)
def test_exit_codes(
    ran: tuple[Path, Result], tmp_path: Path, args: list[str], code: int, claims: int
) -> None:
    more = ("--suite", ran[0] / "suite", "--report", "out")
    result = conformance(tmp_path, "run", *args, *more)
    assert result.code == code, result
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert len(report["claims"]) == claims


SMALL = "".join(
    (
        entry("fake.ok.one"),
        entry("fake.ok.two", level="extended"),
        entry("fake.known.three", deviation="of two"),
    )
)
SMALL_CHECKS = """\
@claim("fake.ok.one")
@pytest.mark.tfdist(workers=[1, 2])
def test_one(tf_worker): pass

@claim("fake.ok.two")
def test_two(tf_worker): pass

@claim("fake.known.three")
@pytest.mark.tfdist(workers=[1, 2])
def test_three(tf_worker, subject):
    assert subject.kind == "adapter" or tf_worker.size == 1, "of two"
"""


@pytest.mark.parametrize(
    ("args", "checks", "code"),
    [
        (["--quick"], {"test_one[workers=1]", "test_three[workers=1]", "test_three[workers=2]"}, 0),
        (["--profile", "core", "--document", "fake"], {"test_one[workers=1]",
         "test_one[workers=2]", "test_three[workers=1]", "test_three[workers=2]"}, 0),
        (["--claim", "fake.ok.two"], {"test_two"}, 0),
        (["--claim", "fake.known.three", "--subject", "adapter"],
         {"test_three[workers=1]", "test_three[workers=2]"}, 1),
    ],
)  # fmt: skip
def test_selection(tmp_path: Path, args: list[str], checks: set[str], code: int) -> None:
    suite(tmp_path / "suite", SMALL, SMALL_CHECKS)
    result = conformance(tmp_path, "run", "--suite", "suite", "--report", "out", *args)
    assert result.code == code, result
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    ran = {check["check"] for claim in report["claims"] for check in claim["checks"]}
    assert {name.partition("::")[2] for name in ran} == checks


def test_what_the_adapter_cures_has_to_conform_with_it(tmp_path: Path) -> None:
    suite(tmp_path / "suite", SMALL + "cured_by_adapter = true\n", SMALL_CHECKS)
    for subject, outcome in (("stock", "known deviation"), ("adapter", "conforms")):
        args = ("--claim", "fake.known.three", "--subject", subject, "--report", subject)
        result = conformance(tmp_path, "run", "--suite", "suite", *args)
        assert result.code == 0, result
        report = json.loads((tmp_path / subject / "report.json").read_text())
        assert report["claims"][0]["outcome"] == outcome
    beside = conformance(tmp_path, "report", "stock", "--beside", "adapter")
    assert beside.code == 0, beside
    table = (tmp_path / "stock" / "summary.md").read_text()
    assert "| claim | stock | with tfdist |" in table
    assert "| known deviation | conforms |" in table


@pytest.mark.parametrize("args", [(), ("-n", "2")], ids=["alone", "xdist"])
@pytest.mark.parametrize(
    ("checks", "told"),
    [
        ('@claim("fake.ok.tow")\ndef test_it(): pass\n', "did you mean fake.ok.two?"),
        ("def test_it(): pass\n", "is bound to no claim"),
        ('@claim("fake.no.way")\ndef test_it(): pass\n', "which the register calls untestable"),
    ],
)
def test_bindings_that_are_wrong(
    tmp_path: Path, checks: str, told: str, args: tuple[str, ...]
) -> None:
    register = SMALL + entry("fake.no.way", 'untestable = "x"')
    suite(tmp_path / "suite", register, checks)
    result = conformance(tmp_path, "run", "--suite", "suite", *args)
    assert result.code == 2, result
    assert result.err.count(told) == 1


def test_checks_that_cannot_be_imported_leave_the_run_incomplete(tmp_path: Path) -> None:
    suite(tmp_path / "suite", SMALL, "import nowhere_to_be_found\n")
    result = conformance(tmp_path, "run", "--suite", "suite", "--report", "out")
    assert result.code == 3, result
    assert "nowhere_to_be_found" in result.err
    again = conformance(tmp_path, "report", "out")
    assert again.code == 2
    assert "is refused: its run is incomplete" in again.err
    assert not (tmp_path / "out" / "index.html").exists()


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_is_incomplete(tmp_path: Path, signum: int) -> None:
    waits = (
        '@claim("fake.ok.one")\ndef test_one(tf_worker):\n'
        "    (HERE / f'here-{tf_worker.rank}').touch()\n    time.sleep(60)\n"
    )
    suite(tmp_path / "suite", SMALL, waits)
    args = ("conformance", "run", "--suite", "suite", "--report", "out")
    with Command(args, tmp_path, ENV) as command:
        command.wait_for(tmp_path / "suite" / "checks" / "here-*", 2)
        command.process.send_signal(signum)
        result = command.result()
        command.assert_nothing_lives()
    assert result.code == 3, result
    assert "incomplete: it was stopped" in result.err
    assert not json.loads((tmp_path / "out" / "report.json").read_text())["complete"]
