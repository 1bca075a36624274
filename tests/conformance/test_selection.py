"""Which checks a run takes, and of which subject."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conformance.fakes import conformance, entry, suite

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
