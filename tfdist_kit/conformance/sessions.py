"""Runs pytest over a suite in a process of its own, and tells what happens as it happens.

Plan -> file -> pytest (a child, with its output in a log) -> events, line by line -> Log

A process of its own, so that no crash in it and no Ctrl-C costs what was found before.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

from tfdist_kit._errors import UsageError
from tfdist_kit.conformance.binding import Check
from tfdist_kit.conformance.evidence import Result
from tfdist_kit.conformance.plan import Plan
from tfdist_kit.conformance.suites import Suite

POLL = 0.05
GRACE = 20.0
_PRELOADED = ("tensorflow", "tf_keras")
_LAST_LINES = 12
_NO_TESTS = 5
_HIDDEN = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS", "TF_CONFIG", "PYTEST_CURRENT_TEST")


class Stopped(Exception):
    """Somebody wants the run to end."""


class SessionBrokeError(Exception):
    """pytest did not come to its end; says its last lines."""


@dataclass
class Stop:
    """Whether somebody wants the run to end: SIGINT or SIGTERM came while `heard`."""

    signum: int = 0

    @contextlib.contextmanager
    def heard(self) -> Iterator[None]:
        """Only take note of the signals meanwhile."""

        def note(signum: int, _: object) -> None:
            self.signum = signum

        before = {each: signal.signal(each, note) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)


@dataclass
class Log:
    """What a session has told.

    Attributes:
        checks: All checks of the suite, by node id.
        results: What they have shown, by node id and mutant.
        problems: What is wrong with how checks are bound.
        status: pytest's exit code; None if it did not come to its end.
    """

    checks: dict[str, Check] = field(default_factory=dict)
    results: dict[tuple[str, str], Result] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    status: int | None = None

    def add(self, event: Mapping[str, Any]) -> Result | None:
        """Note an event; returns the result that it brings, if it does."""
        data = {name: value for name, value in event.items() if name != "event"}
        if event["event"] == "check":
            check = Check(**{**data, "claims": tuple(data["claims"])})
            self.checks[check.check] = check
        elif event["event"] == "problem":
            self.problems += [line for line in data["lines"] if line not in self.problems]
        elif event["event"] == "end":
            self.status = data["status"]
        else:
            result = Result.from_dict(data)
            self.results[result.check, result.mutant] = result
            return result
        return None


def collect(suite: Suite) -> Log:
    """Find the checks of a suite, and run none.

    Raises:
        UsageError: They cannot be read, or are bound to what is not in the register.
    """
    try:
        return session(suite, Plan(str(suite.folder), ""), arguments=("--collect-only",))
    except SessionBrokeError as error:
        raise UsageError(f"the checks cannot be read: {error}", hint="correct them") from error


def session(
    suite: Suite,
    plan: Plan,
    *,
    stop: Stop | None = None,
    arguments: tuple[str, ...] = (),
    on_result: Callable[[Log, Result], None] = lambda log, result: None,
) -> Log:
    """Run a session to its end.

    Args:
        suite: The suite.
        plan: What to do; its events go to a file that is made here.
        stop: Looked at all the time.
        arguments: More of them for pytest.
        on_result: Called with each result as it comes, and all that is known by then.

    Raises:
        UsageError: Checks are bound to what is not in the register.
        SessionBrokeError: pytest did not come to its end.
        Stopped: `stop` said so.
    """
    log = Log()
    with tempfile.TemporaryDirectory(prefix="tfdist-conformance-") as temp:
        folder = Path(temp)
        plan = replace(plan, events=str(folder / "events.jsonl"))
        plan.write(folder / "plan.json")
        output = folder / "output.log"
        for event in _events(_command(suite, folder, arguments), folder, stop or Stop()):
            result = log.add(event)
            if result is not None:
                on_result(log, result)
        _check_end(log, output)
    return log


def _command(suite: Suite, folder: Path, arguments: tuple[str, ...]) -> list[str]:
    return [
        *(sys.executable, "-m", "pytest", "-p", "tfdist_kit.conformance.plugin"),
        *("-c", str(suite.settings), f"--rootdir={suite.folder}"),
        *("-o", f"tfdist_preload={' '.join(filter(importlib.util.find_spec, _PRELOADED))}"),
        *("--conformance-plan", str(folder / "plan.json"), *arguments, str(suite.checks)),
    ]


def _events(command: list[str], folder: Path, stop: Stop) -> Iterator[Mapping[str, Any]]:
    environ = {name: value for name, value in os.environ.items() if name not in _HIDDEN}
    events = folder / "events.jsonl"
    events.touch()
    with (folder / "output.log").open("wb") as output, events.open("rb") as file:
        process = subprocess.Popen(
            command,
            env={"TF_CPP_MIN_LOG_LEVEL": "3", **environ},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is ours, and is passed on once
        )
        try:
            while not _has_ended(process):
                yield from _lines(file)
                if stop.signum:
                    raise Stopped
            yield from _lines(file)
        finally:
            _end(process)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(POLL)
    return process.returncode is not None


def _lines(file: BinaryIO) -> Iterator[Mapping[str, Any]]:
    """What has come, up to the last whole line."""
    while line := file.readline():
        if not line.endswith(b"\n"):
            file.seek(-len(line), os.SEEK_CUR)
            return
        event: Mapping[str, Any] = json.loads(line)
        yield event


def _end(process: subprocess.Popen[bytes]) -> None:
    """Have pytest end its clusters and itself."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _check_end(log: Log, output: Path) -> None:
    if log.problems:
        raise UsageError(
            "\n  ".join(log.problems), hint="bind each check to claims of the register"
        )
    if log.status in (0, 1, _NO_TESTS):
        return
    lines = output.read_text(encoding="utf-8", errors="replace").rstrip().splitlines()
    raise SessionBrokeError(
        "pytest did not come to its end; its last lines:\n  " + "\n  ".join(lines[-_LAST_LINES:])
    )
