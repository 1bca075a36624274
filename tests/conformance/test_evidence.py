"""From the verdict of each rank to what a check has shown; the same text in each run."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from tfdist_kit.conformance.evidence import Result, result_of
from tfdist_kit.conformance.scrub import MOST_CHARACTERS, scrubbed

ROOT = Path(__file__).parents[2]


def told(rank: int, kind: str, message: str = "", phase: str = "call") -> dict[str, Any]:
    path = "/s/checks/test_it.py" if kind == "failed" else ""
    return {"rank": rank, "name": f"rank {rank}", "kind": kind, "phase": phase, "path": path,
            "line": 3 if path else 0, "message": message}  # fmt: skip


def report(outcome: Any, *verdicts: dict[str, Any], when: Any = "call") -> pytest.TestReport:
    made = pytest.TestReport("checks/test_it.py::test_a", ("x", 1, "x"), {}, outcome, "text", when)
    if verdicts:
        setattr(made, "tfdist_verdicts", list(verdicts))  # noqa: B010
    return made


PASSED = told(0, "passed")
WORKERS: list[tuple[list[dict[str, Any]], str, str]] = [
    ([PASSED, told(1, "passed")], "held", ""),
    ([PASSED, told(1, "failed", "assert 1 == 2")], "failed", "assert 1 == 2"),
    ([told(0, "failed", "ValueError: x"), told(1, "aborted", "in y")], "failed", "ValueError: x"),
    ([told(0, "failed", "x", "setup")], "broken", "x"),
    ([told(0, "failed", "x", "teardown")], "broken", "x"),
    ([told(0, "failed", "the worker cannot import the test", "")], "broken", "cannot import"),
    ([told(0, "failed", "tfdist_kit._errors.UsageError: TFD001: no")], "broken", "TFD001"),
    ([told(0, "failed", "tfdist_kit._errors.TooLateError: TFD021")], "failed", "TFD021"),
    ([told(0, "failed", "ModuleNotFoundError: No module named 'tf_keras'")], "broken", "tf_keras"),
    ([told(0, "not started", "x")], "broken", "x"),
    ([told(0, "not started", "x"), told(1, "failed", "y")], "broken", "x"),
    ([told(0, "crashed", "killed by SIGSEGV"), told(1, "aborted")], "failed", "crashed: killed by"),
    ([told(0, "crashed", "killed by SIGKILL")], "broken", "SIGKILL"),
    ([PASSED, told(1, "timed out", "in reduce")], "timed out", "timed out: in reduce"),
    ([told(0, "skipped", "no GPU"), told(1, "skipped", "no GPU")], "skipped", "no GPU"),
    ([told(0, "skipped", "no GPU"), told(1, "passed")], "failed", "the ranks differ"),
    ([told(0, "xfailed", "x")], "broken", ""),
    ([told(0, "xpassed", "x")], "broken", ""),
]


@pytest.mark.parametrize(("verdicts", "kind", "text"), WORKERS)
def test_in_workers(verdicts: list[dict[str, Any]], kind: str, text: str) -> None:
    outcome = "passed" if kind == "held" else "failed"
    result = result_of(report(outcome, *verdicts), Path("/s"))
    assert result.kind == kind
    assert text in result.text
    assert [rank.kind for rank in result.ranks] == [each["kind"] for each in verdicts]
    assert Result.from_dict(result.to_dict()) == result


def test_where_a_rank_failed_is_told_from_the_suites_folder() -> None:
    result = result_of(report("failed", told(0, "failed", "assert 0")), Path("/s"))
    assert result.text == result.ranks[0].text == "checks/test_it.py:3: assert 0"


class Crash:
    def __init__(self, message: str) -> None:
        self.path, self.lineno, self.message = "/s/checks/test_it.py", 3, message


class Longrepr:
    def __init__(self, message: str) -> None:
        self.reprcrash = Crash(message)


ALONE: list[tuple[str, str, Any, str]] = [
    ("passed", "call", None, "held"),
    ("failed", "call", Longrepr("assert 1 == 2"), "failed"),
    ("failed", "setup", Longrepr("KeyError: 1"), "broken"),
    ("failed", "teardown", Longrepr("KeyError: 1"), "broken"),
    ("failed", "call", "TFD050: the cluster cannot go on", "broken"),
    ("failed", "call", Longrepr("tfdist_kit._errors.ClusterTimeoutError: TFD053"), "timed out"),
    ("failed", "call", Longrepr("tfdist_kit._errors.WorkerLostError: TFD052"), "failed"),
    ("failed", "call", Longrepr("tfdist_kit._errors.ClusterError: TFD050"), "broken"),
    ("failed", "call", Longrepr("tfdist_kit.conformance.marks.MutantError: x"), "broken"),
    ("skipped", "setup", ("f", 1, "Skipped: there is no GPU"), "skipped"),
]


@pytest.mark.parametrize(("outcome", "when", "longrepr", "kind"), ALONE)
def test_in_pytests_own_process(outcome: Any, when: Any, longrepr: Any, kind: str) -> None:
    made = report(outcome, when=when)
    made.longrepr = longrepr
    result = result_of(made, Path("/s"))
    assert result.kind == kind
    assert not result.text.startswith("Skipped")


def test_an_expected_failure_is_no_proof() -> None:
    made = report("skipped")
    made.wasxfail = "reason"
    assert result_of(made, None).kind == "broken"


@pytest.mark.parametrize(
    ("text", "same"),
    [
        (f"in {tempfile.gettempdir()}/abc/x.txt: no", "in TEMP: no"),
        ("<object at 0x7f00aa12>", "<object at 0xADDRESS>"),
        ("connect to 127.0.0.1:41234 failed", "connect to 127.0.0.1:PORT failed"),
        ("localhost:41234", "localhost:PORT"),
        ("/usr/lib/python3.11/site-packages/tensorflow/x.py:3", "tensorflow/x.py:3"),
        (f"{ROOT}/.venv/lib/python3.11/site-packages/_pytest/x.py", "_pytest/x.py"),
        (f"{ROOT}/tfdist_kit/x.py", "tfdist_kit/x.py"),
        ("/usr/lib/python3.11/asyncio/x.py", "python/asyncio/x.py"),
        ("pid 4711, port 123", "pid N, port N"),
        ("after 12.5 s", "after N s"),
        ("2024-01-02 03:04:05.678: E x", "TIME: E x"),
        ("loss 0.125 of 3 replicas, 2 workers, version 2.21", None),
    ],
)
def test_what_changes_from_run_to_run_is_left_out(text: str, same: str | None) -> None:
    assert scrubbed(text) == (same or text)


def test_long_texts_are_cut() -> None:
    assert scrubbed("\n".join("abc")).count("\n") == 2
    cut = scrubbed("\n".join(map(str, range(100)))).splitlines()
    assert cut == [*map(str, range(8)), "... 76 lines ...", *map(str, range(84, 100))]
    assert len(scrubbed("x" * 9999)) < MOST_CHARACTERS + 9
