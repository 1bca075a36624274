"""The pytest plugin: tests marked ``tfdist`` run in every worker of a local cluster.

    collection: options with several values become parameters
    setup: fixtures that are made in the workers are left out here (`sending`)
    call: `running`, in place of the test's body
    report: amended by what the workers told

pytest loads this module in every session of whoever has installed the kit: it imports next to
nothing, and no TensorFlow.
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tfdist_kit._errors import UsageError
from tfdist_kit.testing import marker
from tfdist_kit.testing.worker import INSIDE, Worker, this_worker

if TYPE_CHECKING:
    from tfdist_kit.launcher import LocalCluster
    from tfdist_kit.testing.running import Runner

_SLOTS = "tfdist_slots"
_MARKS = (
    "tfdist(workers=2, chief=False, evaluator=0, fresh=False, isolate=True, timeout=60, "
    "local_replicas=1): run the test in every worker of a local TensorFlow cluster",
    "tfdist_same_as_single_process(**options): the test returns what "
    "tfdist_kit.testing.assert_same_as_single_process is to be called with, in every worker",
    "tfdist_each_row_once(**options): the test returns a data set; every row of it has to be seen "
    "once over all workers",
    "tfdist_replicas_agree(**options): the test returns variables; they have to be the same on "
    "every worker",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("tfdist", "distributed TensorFlow")
    group.addoption(
        "--tfdist-debug-rank",
        type=int,
        metavar="N",
        help="give rank N of every test's cluster the terminal, for breakpoint() and --pdb",
    )
    group.addoption(
        "--tfdist-fresh",
        action="store_true",
        help="give every test processes of its own",
    )
    group.addoption(
        "--tfdist-slots",
        type=int,
        metavar="N",
        help="how many worker processes may be at work at a time (default: one per processor)",
    )
    parser.addini(
        "tfdist_preload",
        "modules that workers have imported when they start",
        type="args",
        default=["tensorflow"],
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the markers known, and be the plugin of this process."""
    for mark in _MARKS:
        config.addinivalue_line("markers", mark)
    if not config.pluginmanager.has_plugin(INSIDE):
        _check_options(config)
        config.pluginmanager.register(_Outside(config), "tfdist-outside")


def _check_options(config: pytest.Config) -> None:
    option = config.option
    if option.tfdist_debug_rank is not None:
        if option.tfdist_debug_rank < 0:
            raise pytest.UsageError("--tfdist-debug-rank is below 0; ranks begin at 0")
        if getattr(option, "numprocesses", None) or hasattr(config, "workerinput"):
            raise pytest.UsageError("--tfdist-debug-rank needs the terminal; leave out -n")
    if option.tfdist_slots is not None and option.tfdist_slots < 1:
        raise pytest.UsageError("--tfdist-slots is below 1; at least one worker has to be at work")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test for each value of an option that has several."""
    try:
        found = marker.several(metafunc.definition)
    except UsageError:
        return  # said when the test runs
    for option, values in found.items():
        name = marker.parameter(option)
        metafunc.fixturenames.append(name)
        metafunc.parametrize(name, values, ids=[f"{option}={value}" for value in values])


@pytest.fixture(scope="session")
def tf_worker(pytestconfig: pytest.Config) -> Worker:
    """The worker that the test runs in (see `tfdist_kit.testing.Worker`).

    A fixture that asks for it is made in each worker.
    """
    inside: Any = pytestconfig.pluginmanager.getplugin(INSIDE)
    return this_worker() if inside is None else inside.worker


@pytest.fixture
def tf_cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """A `tfdist_kit.LocalCluster` that the test drives, as large as its marker says.

    The test itself runs in pytest's own process.
    """
    outside: Any = request.config.pluginmanager.getplugin("tfdist-outside")
    if outside is None:
        raise UsageError(
            "tf_cluster was asked for in a worker",
            hint="a test that asks for it by an argument runs in pytest's own process",
        )
    with outside.runner.driven(request.node) as cluster:
        yield cluster


class _Outside:
    """The plugin in pytest's own process; what it needs is imported when a test is marked."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._made: Runner | None = None
        self._slots: tempfile.TemporaryDirectory[str] | None = None

    @property
    def runner(self) -> Runner:
        """Runs the marked tests."""
        if self._made is None:
            from tfdist_kit.testing.running import Runner

            shared = getattr(self._config, "workerinput", {}).get(_SLOTS)
            self._made = Runner(self._config, Path(shared) if shared else None)
        return self._made

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Give a process of pytest-xdist the slots that all of them share."""
        self._slots = self._slots or tempfile.TemporaryDirectory(prefix="tfdist-slots-")
        node.workerinput[_SLOTS] = self._slots.name

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Begin to import TensorFlow for the workers, if there will be any."""
        if not self._config.option.collectonly and any(map(_has_workers, session.items)):
            self.runner.warm_up()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Have the test run in workers, and leave out the fixtures that are made there."""
        if isinstance(item, pytest.Function) and _runs_in_workers(item):
            self.runner.prepare(item)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Tell in the report what happened in the workers."""
        report = yield
        if call.when == "call" and self._made is not None:
            self._made.amend(item, report)
        return report

    def pytest_unconfigure(self) -> None:
        """End the clusters that are left."""
        if self._made is not None:
            self._made.close()
        if self._slots is not None:
            self._slots.cleanup()


def _runs_in_workers(item: pytest.Item) -> bool:
    return marker.is_marked(item) and "tf_cluster" not in getattr(item, "fixturenames", ())


def _has_workers(item: pytest.Item) -> bool:
    return marker.is_marked(item) or "tf_cluster" in getattr(item, "fixturenames", ())
