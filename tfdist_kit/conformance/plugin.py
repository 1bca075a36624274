"""The pytest plugin of the suite: binds checks to claims, and tells what they have shown.

    collection: `binding`
    setup: what a claim needs and is not there leaves its check out
    in each worker: a mutant is applied, if the check is to run under one
    report: `evidence`; a known deviation is no failure
    end: each result goes to the file that the plan names, and to the terminal

It is loaded by the checks' own conftest, and by ``-p`` where its options are wanted.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import signal
from collections.abc import Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tfdist_kit._errors import TfdistError
from tfdist_kit.conformance import binding
from tfdist_kit.conformance.claims import Claim, Deviation
from tfdist_kit.conformance.evidence import Result, result_of
from tfdist_kit.conformance.marks import MARK, apply_mutant
from tfdist_kit.conformance.outcomes import expected, is_known
from tfdist_kit.conformance.plan import Plan
from tfdist_kit.conformance.scenes import Played, Scenes
from tfdist_kit.conformance.subjects import STOCK, SUBJECTS, Subject
from tfdist_kit.conformance.suites import Suite
from tfdist_kit.conformance.summing_up import SummingUp
from tfdist_kit.conformance.surroundings import Surroundings, surroundings
from tfdist_kit.testing.worker import INSIDE

_PR_SET_PDEATHSIG = 1
_NAME = "tfdist-conformance"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; there are none if a conftest loads the plugin late."""
    group = parser.getgroup("tfdist conformance")
    add = group.addoption
    add("--conformance-suite", metavar="DIR", help="a suite of your own")
    add("--conformance-subject", choices=SUBJECTS, default=STOCK, help="what is checked")
    add("--conformance-mutant", metavar="NAME", help="break TensorFlow so in every worker")
    add("--conformance-plan", metavar="FILE", help="what tfdist conformance wants")


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, and be the plugin of this process."""
    config.addinivalue_line("markers", f"{MARK}(*ids): the claims that the test checks")
    if config.pluginmanager.has_plugin(_NAME):
        return
    inside = config.pluginmanager.has_plugin(INSIDE)
    config.pluginmanager.register(_InAWorker(config) if inside else _Outside(config), _NAME)


@pytest.fixture(scope="session")
def subject(pytestconfig: pytest.Config) -> Subject:
    """What the check is about (see `tfdist_kit.conformance.subjects.Subject`)."""
    return Subject(_subject(pytestconfig, _plan(pytestconfig)))


@pytest.fixture(scope="session")
def _played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return Played(tmp_path_factory.mktemp("scenes"))


@pytest.fixture
def scenes(pytestconfig: pytest.Config, subject: Subject, _played: Played) -> Scenes:
    """Plays programs that end their processes (see `tfdist_kit.conformance.scenes.Scenes`)."""
    outside: Any = pytestconfig.pluginmanager.getplugin("tfdist-outside")
    suite = _suite(pytestconfig, _plan(pytestconfig))
    return Scenes(outside.runner, _played, subject, suite, _option(pytestconfig, "mutant", ""))


def _option(config: pytest.Config, name: str, default: Any = None) -> Any:
    return getattr(config.option, f"conformance_{name}", None) or default


def _plan(config: pytest.Config) -> Plan | None:
    path = _option(config, "plan")
    return Plan.read(path) if path else None


def _subject(config: pytest.Config, plan: Plan | None) -> str:
    kind: str = plan.subject if plan else _option(config, "subject", STOCK)
    return kind


def _suite(config: pytest.Config, plan: Plan | None) -> Suite:
    return Suite(Path(plan.suite)) if plan else Suite.at(_option(config, "suite"))


@contextlib.contextmanager
def _refused() -> Iterator[None]:
    """Have pytest refuse what the kit refuses."""
    try:
        yield
    except TfdistError as error:
        raise pytest.UsageError(str(error)) from error


def _end_with_parent() -> None:
    """Have this process interrupted when the one that started it is killed (Linux only)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGINT))


class _InAWorker:
    """The plugin in a worker."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_collection_finish(self) -> None:
        """Break TensorFlow, if the check is to run so; the check's module has been imported."""
        name = _option(self._config, "mutant")
        if name:
            suite = _suite(self._config, _plan(self._config))
            apply_mutant(suite.mutants_folder, name)


class _Outside:
    """The plugin in pytest's own process, and in those of pytest-xdist."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._plan = _plan(config)
        if self._plan is not None and not hasattr(config, "workerinput"):
            _end_with_parent()
        self._counts: Mapping[str, int] = {}
        self._mutant = _option(config, "mutant", "")
        self.summing_up = SummingUp(lambda: self._claims)

    @functools.cached_property
    def _suite(self) -> Suite:
        return _suite(self._config, self._plan)

    @functools.cached_property
    def _claims(self) -> Mapping[str, Claim]:
        return {claim.id: claim for claim in self._suite.register()}

    @functools.cached_property
    def _around(self) -> Surroundings:
        return surroundings()

    def _expected(self, claim: str) -> Deviation | None:
        kind = _subject(self._config, self._plan)
        return expected(self._claims[claim], self._around.tensorflow, kind)

    # Collection

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Bind the checks, and keep those that the plan has run."""
        with _refused():
            ours = [item for item in items if self._is_ours(item)]
            if ours:
                self._take(config, items, ours)

    def _take(
        self, config: pytest.Config, items: list[pytest.Item], ours: list[pytest.Item]
    ) -> None:
        if wrong := binding.problems(ours, self._suite, self._claims):
            self._tell({"event": "problem", "lines": wrong})
            raise pytest.UsageError("\n".join(wrong))
        self._counts = binding.counted(ours)
        self._tell_checks(ours)
        if self._plan is None:
            return
        kept = binding.in_order(binding.under_mutants(binding.chosen(ours, self._plan), self._plan))
        gone = [item for item in items if item not in kept]
        items[:] = kept
        config.hook.pytest_deselected(items=gone)

    def _is_ours(self, item: pytest.Item) -> bool:
        marked = item.get_closest_marker(MARK) is not None
        return isinstance(item, pytest.Function) and (
            marked or item.path.is_relative_to(self._suite.checks)
        )

    def _tell_checks(self, items: Iterable[pytest.Item]) -> None:
        shared = getattr(self._config, "workerinput", {"workerid": "gw0"})
        if shared["workerid"] == "gw0" and self._plan is not None:
            for item in items:
                assert isinstance(item, pytest.Function)
                self._tell({"event": "check", **binding.check_of(item, self._suite).to_dict()})

    # A test

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Leave out what cannot be here, and say which mutant there is."""
        setattr(self._config.option, "conformance_mutant", self._mutant_of(item))  # noqa: B010
        kind = _subject(self._config, self._plan)
        for each in binding.claims_of(item):
            if missing := self._around.missing(self._claims[each].needs, kind):
                pytest.skip(f"there is no {missing.removeprefix('a ')}")

    def _mutant_of(self, item: pytest.Item) -> str:
        return item.stash.get(binding.mutant_key, self._mutant)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Tell what the check has shown; a known deviation is no failure."""
        report = yield
        ids = binding.claims_of(item)
        if ids:
            result = result_of(report, self._suite.folder, self._mutant_of(item))
            counts = {each: self._counts.get(each, 1) for each in ids}
            told = {"result": result.to_dict(), "counts": counts}
            setattr(report, "conformance", told)  # noqa: B010  # pytest-xdist sends it on
            if not result.mutant and result.kind in ("failed", "timed out"):
                self._excuse(report, result, ids)
        return report

    def _excuse(self, report: pytest.TestReport, result: Result, ids: Iterable[str]) -> None:
        """Have a failure count as expected if it is, for every claim of the check."""
        deviations = [self._expected(each) for each in ids]
        if all(one is not None and is_known(result, one) for one in deviations):
            first = next(one for one in deviations if one is not None)
            report.outcome = "skipped"
            report.wasxfail = f"{first.verdict}: {first.seen}"

    # The end

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what a check has shown."""
        if hasattr(self._config, "workerinput"):
            return  # the process that pytest was started in does so
        told = getattr(report, "conformance", None)
        if told is None:
            if report.when not in ("setup", "call", "teardown"):  # its process has died
                result = Result(report.nodeid, "broken", "the process that ran it has died")
                self._tell({"event": "result", **result.to_dict()})
            return
        if report.when == "call" or told["result"]["kind"] != "held":
            self._tell({"event": "result", **told["result"]})
            self.summing_up.add(Result.from_dict(told["result"]), told["counts"])

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        """Have a claim that no longer deviates fail the session."""
        yield
        if not hasattr(self._config, "workerinput"):
            if self._no_longer() and session.exitstatus == 0:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
            self._tell({"event": "end", "status": int(session.exitstatus)})

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say what the checks mean for the claims."""
        for line in (*self.summing_up.lines(self._expected), *self._no_longer()):
            terminalreporter.write_line(line)

    def _no_longer(self) -> list[str]:
        """What no longer deviates, unless pytest was given files or tests, and not the suite."""
        narrow = any("::" in each or each.endswith(".py") for each in self._config.args)
        return [] if narrow else self.summing_up.no_longer(self._expected)

    def _tell(self, event: Mapping[str, Any]) -> None:
        if self._plan is not None:
            with open(self._plan.events, "a", encoding="utf-8") as file:
                file.write(json.dumps(event) + "\n")
