"""In a worker: pytest itself runs one test, and what it reports goes back.

    Order -> pytest.main, with fixtures that came from outside -> reports -> Ran, or RankEnded

Collection, setup, assertion rewriting, skips, expected failures: all of it is pytest's.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tfdist_kit import _first_use
from tfdist_kit._errors import UsageError
from tfdist_kit.testing import coverage_data, sending, state
from tfdist_kit.testing.check_marks import call_and_check
from tfdist_kit.testing.order import Order
from tfdist_kit.testing.worker import INSIDE, Worker, this_worker


@dataclass(frozen=True)
class Ran:
    """What a worker's pytest reported.

    Attributes:
        reports: As pytest serialises them: setup, call, teardown.
        leftover: What the test has left behind that another test would meet; empty if nothing.
        warnings: What it warned of: category (pickled), text, file and line.
        quit: Why the session is to end, if it is: ``pytest.exit``, or a debugger that was left.
        quit_code: With which code.
    """

    reports: tuple[Mapping[str, Any], ...]
    leftover: str
    warnings: tuple[tuple[bytes, str, str, int], ...] = ()
    quit: str = ""
    quit_code: int | None = None


class RankEnded(Exception):
    """A test did not pass in a worker: it failed, as expected or not.

    Raised so that the cluster does not wait for ever for the other workers.
    """

    def __init__(self, ran: Ran, trouble: str = "") -> None:
        super().__init__(ran, trouble)
        self.ran = ran
        self.trouble = trouble


def run_item(order: Order) -> Ran:
    """Run one test in this worker.

    Raises:
        RankEnded: It did not pass; the cause is what it raised.
    """
    plugin = Inside(order)
    before = state.snapshot()
    _first_use.watch_anew()
    with _as_ordered(order):
        code = _pytest(order, plugin, *_debugging(order))
    _forget_modules(order)
    left = state.left_behind(before)
    ran = Ran(tuple(plugin.reports), left, tuple(plugin.warnings), plugin.quit, plugin.quit_code)
    trouble = plugin.trouble or ("" if plugin.reports else _why_nothing(code))
    if trouble or plugin.quit or plugin.has_failed:
        raise RankEnded(ran, trouble) from plugin.error
    return ran


def _why_nothing(code: int) -> str:
    name = pytest.ExitCode(code).name if code in list(pytest.ExitCode) else str(code)
    return f"pytest ended in the worker without running the test ({name}); see what it wrote"


def import_test(order: Order) -> None:
    """Import a test's module as pytest does, so that its functions can be called here by name.

    Raises:
        UsageError: It cannot be imported.
    """
    plugin = Inside(order)
    with _as_ordered(order):
        _pytest(order, plugin, "--collect-only")
    if plugin.trouble:
        raise UsageError(plugin.trouble)


def _pytest(order: Order, plugin: Inside, *more: str) -> int:
    plugins = [plugin] if _is_debugged(order) else [plugin, _NoTerminal()]
    return int(pytest.main([*order.args, *_cache(), *more], plugins=plugins))


def _debugging(order: Order) -> tuple[str, ...]:
    if not _is_debugged(order):
        return ()
    return ("--no-header", "--no-summary", *(("--pdb",) if order.debugger else ()))


def _is_debugged(order: Order) -> bool:
    return os.environ.get("TFDIST_RANK") == str(order.debug_rank)


@contextmanager
def _as_ordered(order: Order) -> Iterator[None]:
    if order.local_replicas > 1:
        from tfdist_kit.adapters.local_replicas import enable_local_replicas

        enable_local_replicas(order.local_replicas)
    _first_use.with_context(_meet_when_remade)
    os.chdir(order.start)
    os.environ.pop("PYTEST_ADDOPTS", None)
    with coverage_data.measured(order.coverage):
        yield


def _meet_when_remade(context: ModuleType) -> None:
    from tfdist_kit.adapters.remade import meet_when_remade

    meet_when_remade(context=context)


def _cache() -> tuple[str, ...]:
    """A cache of this worker's own: the session's is that of pytest's process."""
    folder = Path(os.environ["TFDIST_RUN_DIR"], f"cache_{os.environ['TFDIST_RANK']}")
    return ("-o", f"cache_dir={folder}")


def _forget_modules(order: Order) -> None:
    """Forget the test's module, and conftests that pytest would import anew beside it.

    Else the module would go on with what the old conftest had defined.
    """
    path = os.path.normpath(os.path.join(order.start, order.args[0].partition("::")[0]))
    for name, module in list(sys.modules.items()):
        is_test = getattr(module, "__file__", None) == path
        if name == "conftest" or (is_test and "." not in name):
            del sys.modules[name]


class _NoTerminal:
    """Takes away who writes to a terminal, as soon as it is there."""

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        config.pluginmanager.unregister(name="terminalreporter")


class Inside:
    """The part of the plugin that works in a worker.

    Attributes:
        reports: What pytest reported.
        error: What the test raised, or the fixture that failed.
        trouble: Why it could not be run at all, if so.
        has_failed: Whether any part of the test has failed, be it as expected.
        quit: See `Ran`.
        quit_code: See `Ran`.
        warnings: See `Ran`.
    """

    def __init__(self, order: Order) -> None:
        self.__name__ = INSIDE
        self._order = order
        self._values: dict[str, Any] = {}
        self._config: pytest.Config | None = None
        self.worker: Worker = this_worker(order.local_replicas)
        self.reports: list[Mapping[str, Any]] = []
        self.has_failed = False
        self.error: BaseException | None = None
        self.trouble = self.quit = ""
        self.quit_code: int | None = None
        self.warnings: list[tuple[bytes, str, str, int]] = []

    # Before

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Have the session's options, before anybody looks at them.

        A worker's pytest counts as a process of pytest-xdist, so that what a project does once for
        a whole session is not done here.
        """
        self._config = config
        for name, packed in self._order.options.items():
            setattr(config.option, name, pickle.loads(packed))
        worker = self.worker
        setattr(config, "workerinput", {"workerid": f"rank{worker.rank}"})  # noqa: B010

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        """Say it plainly if there is no such test here."""
        try:
            return (yield)
        except pytest.UsageError as error:
            why = str(error).splitlines()[0]
            self.trouble = f"{why}\nare the test's parameters the same in every process?"
            raise

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the one test, now that its module can be imported."""
        items[:] = [item for item in items if item.nodeid == self._order.nodeid]
        self._values = pickle.loads(self._order.values.packed)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note why a module could not be imported."""
        if report.failed:
            self.trouble = f"the worker cannot import the test:\n{report.longreprtext}"

    def pytest_internalerror(self, excrepr: object) -> None:
        """Note what broke pytest itself."""
        self.trouble = f"pytest broke in the worker:\n{excrepr}"

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Note who called ``pytest.exit``, or raised KeyboardInterrupt."""
        if isinstance(excinfo.value, pytest.exit.Exception):
            self.quit, self.quit_code = str(excinfo.value), excinfo.value.returncode
        else:
            self.trouble = f"the test ended pytest in the worker: {excinfo.exconly()}"
        self.error = excinfo.value

    # While it runs

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Generator[None, Any, Any]:
        """Give the value that was sent, instead of what the fixture's function returns."""
        name = fixturedef.argname
        if name in self._values:
            value = self._values[name]
        elif name in self._order.values.unsendable:
            value = sending.NotSent(name, self._order.values.unsendable[name])
        else:
            return (yield)
        function, arguments = fixturedef.func, fixturedef.argnames
        fixturedef.func, fixturedef.argnames = (lambda: value), ()
        try:
            return (yield)
        finally:
            fixturedef.func, fixturedef.argnames = function, arguments

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self) -> None:
        """Be where the session is."""
        os.chdir(self._order.cwd)

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool | None:
        """Check what the test returns, if it is marked so."""
        __tracebackhide__ = True
        return call_and_check(pyfuncitem) or None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Keep what was raised first."""
        report = yield
        if call.excinfo is not None and self.error is None:
            self.error = call.excinfo.value
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the report, ready to be sent."""
        assert self._config is not None
        hook = self._config.hook
        self.reports.append(hook.pytest_report_to_serializable(config=self._config, report=report))
        self.has_failed |= report.failed or (report.skipped and hasattr(report, "wasxfail"))

    def pytest_warning_recorded(self, warning_message: Any, when: str) -> None:
        """Keep what the test warned of."""
        if when != "runtest":
            return
        try:
            category = pickle.dumps(warning_message.category)
        except Exception:  # of a class that is known here alone
            category = pickle.dumps(UserWarning)
        told = (str(warning_message.message), warning_message.filename, warning_message.lineno)
        self.warnings.append((category, *told))
