"""What other plugins can read of a report: the verdict of each rank, as plain data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.testing.sessions import session

CONFTEST = """\
import json, os
from pathlib import Path

def pytest_runtest_logreport(report):
    if report.when == "call" and not {"TFDIST_RANK", "PYTEST_XDIST_WORKER"} & os.environ.keys():
        told = getattr(report, "tfdist_verdicts", None)
        with (Path(__file__).parent / "told").open("a") as file:
            file.write(json.dumps([report.nodeid.partition("::")[2], told]) + "\\n")
"""
TESTS = """\
import pytest

@pytest.mark.tfdist
def test_passes(tf_worker): pass

@pytest.mark.tfdist
def test_fails(tf_worker):
    assert tf_worker.rank == 0

def test_without_workers(): pass
"""


@pytest.mark.parametrize("more", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_a_report_carries_the_verdict_of_each_rank(tmp_path: Path, more: tuple[str, ...]) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)
    ran = session(tmp_path, "-o", "tfdist_preload=", *more)
    told = dict(map(json.loads, (tmp_path / "told").read_text().splitlines()))
    names = ("rank 0 (worker:0)", "rank 1 (worker:1)")
    passed = [
        {"rank": rank, "name": name, "kind": "passed", "phase": "", "path": "", "line": 0,
         "message": ""}
        for rank, name in enumerate(names)
    ]  # fmt: skip
    assert told["test_passes"] == passed, ran.out
    assert told["test_without_workers"] is None
    failed = told["test_fails"][1]
    assert told["test_fails"][0] == passed[0]
    assert failed.pop("message").splitlines()[0] == "AssertionError: assert 1 == 0"
    path = str(tmp_path / "test_it.py")
    assert failed == {"rank": 1, "name": names[1], "kind": "failed", "phase": "call", "path": path,
                      "line": 8}  # fmt: skip
