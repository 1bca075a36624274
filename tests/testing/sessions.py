"""Runs pytest with the plugin as a user would, and tells how each test went."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.once import once

RECORDER = "tests.testing.sessions"
ROOT = Path(__file__).parents[2]
DEADLINE = 150.0
ENV = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "TF_ENABLE_ONEDNN_OPTS": "0"}


@dataclass
class Went:
    """How one test went: the last of its phases that says something."""

    outcome: str = "passed"
    text: str = ""
    headline: str = ""
    sections: dict[str, str] = field(default_factory=dict)
    properties: list[Any] = field(default_factory=list)


@dataclass
class Session:
    """A finished session."""

    folder: Path
    code: int
    out: str
    tests: dict[str, Went]

    def __getitem__(self, name: str) -> Went:
        return self.tests[name]


def session(folder: Path, *args: str, **env: str) -> Session:
    """Run pytest in `folder`, which is also where temp files go."""
    record, temp = folder / "record.jsonl", folder / "temp"
    record.unlink(missing_ok=True)
    temp.mkdir(exist_ok=True)
    hidden = ("PYTEST_ADDOPTS", "TF_CONFIG", "PYTEST_CURRENT_TEST")
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in hidden and not name.startswith(("PYTEST_XDIST", "COV_"))
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", RECORDER, "--color=no", *args],
        cwd=folder,
        env={**inherited, **ENV, "PYTHONPATH": str(ROOT), "RECORD": str(record)}
        | {"TMPDIR": str(temp), **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
    )
    lines = record.read_text().splitlines() if record.exists() else []
    return Session(
        folder, done.returncode, done.stdout + done.stderr, _tests(map(json.loads, lines))
    )


def session_once(
    temp: pytest.TempPathFactory, files: Mapping[str, str], *args: str, **env: str
) -> Session:
    """Like `session`, but once for all processes of this test run that ask for the same."""

    def make(folder: Path) -> Session:
        for name, text in files.items():
            (folder / name).write_text(text)
        return session(folder, *args, **env)

    return once(temp, json.dumps([dict(files), args, env]), make)


def _tests(lines: Any) -> dict[str, Went]:
    tests: dict[str, Went] = {}
    for name, outcome, text, headline, sections, properties in lines:
        went = tests.setdefault(name, Went())
        went.sections.update(sections)
        went.properties += properties
        if outcome != "passed":
            went.outcome, went.text, went.headline = outcome, text, headline
    return tests


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """In the session: write down what is reported, where it is shown to the user."""
    path = os.environ.get("RECORD")
    if path is None or "TFDIST_RANK" in os.environ or "PYTEST_XDIST_WORKER" in os.environ:
        return
    expected = "x" if hasattr(report, "wasxfail") else ""
    outcome = {"skipped": "failed"}.get(report.outcome, report.outcome) if expected else ""
    told = [
        report.nodeid.partition("::")[2],
        f"x{outcome}" if expected else report.outcome,
        report.longreprtext or getattr(report, "wasxfail", ""),
        report.location[2],
        report.sections,
        report.user_properties if report.when == "call" else [],
    ]
    with open(path, "a") as file:
        file.write(json.dumps(told) + "\n")
