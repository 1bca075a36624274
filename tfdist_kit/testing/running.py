"""Runs tests in the workers of clusters, in place of running them in pytest's process.

item -> wish, values -> slots -> a cluster -> inside.run_item in each worker -> verdicts
     -> skip, xfail or fail, as the workers say -> the report, amended
"""

from __future__ import annotations

import bdb
import contextlib
import os
import pickle
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from _pytest.outcomes import Failed  # the public name of it, pytest.fail.Exception, is no type

from tfdist_kit._errors import TfdistError
from tfdist_kit.launcher import LocalCluster, warm_up
from tfdist_kit.testing import coverage_data, inside, marker, reporting, sending, verdicts
from tfdist_kit.testing.marker import Wish
from tfdist_kit.testing.order import Order, order_for
from tfdist_kit.testing.output import Output
from tfdist_kit.testing.reporting import Told
from tfdist_kit.testing.sending import Values
from tfdist_kit.testing.slots import processors, slots
from tfdist_kit.testing.verdicts import Merged
from tfdist_kit.testing.warm import Lease, WarmClusters

_PYTEST = ("pytest", "_pytest.terminal")
_told = pytest.StashKey[Told]()
_output = pytest.StashKey[Output]()


class Runner:
    """Runs the tests of one pytest process.

    Args:
        config: Of that pytest.
        slots_folder: Where the locks lie of slots that it shares with other processes, if it does.
    """

    def __init__(self, config: pytest.Config, slots_folder: Path | None) -> None:
        option = config.option
        self._config = config
        self._slots_folder = slots_folder
        self._slots = option.tfdist_slots or processors()
        self._debug_rank: int | None = option.tfdist_debug_rank
        self._preload = (*_PYTEST, *config.getini("tfdist_preload"))
        self._clusters = WarmClusters(self._preload, always_fresh=option.tfdist_fresh)

    def warm_up(self) -> None:
        """Begin to import TensorFlow for the workers."""
        warm_up(self._preload, os.environ)

    def close(self) -> None:
        """End the clusters that are left."""
        self._clusters.close()

    # Tests whose body runs in the workers

    def prepare(self, item: pytest.Function) -> None:
        """Have a test run in the workers, and leave out the fixtures that are made there."""
        with _said_plainly():
            wish = marker.check(item, in_workers=True)
            there = sending.made_in_workers(item)
        item.funcargs.update(dict.fromkeys(there))
        setattr(item, "runtest", partial(self._run, item, wish, there))  # noqa: B010  # no method

    def _run(self, item: pytest.Function, wish: Wish, there: frozenset[str]) -> None:
        with _said_plainly():
            told = self._told(wish, self._order(item, wish, sending.pack(item, there)))
        item.stash[_told] = told
        if self._config.option.capture == "no":
            reporting.show(told)
        _warn(told.merged)
        _conclude(told.merged)

    def _order(self, item: pytest.Function, wish: Wish, values: Values) -> Order:
        return order_for(
            item,
            values,
            local_replicas=wish.local_replicas,
            coverage=coverage_data.settings(),
            debug_rank=self._debug_rank,
        )

    def _told(self, wish: Wish, order: Order) -> Told:
        limit = wish.timeout if self._debug_rank is None else None
        with (
            self._slots_for(wish.size),
            _terminal_lent(self._config, lent=self._debug_rank is not None),
            self._clusters.lend(wish, self._debug_rank) as lease,
        ):
            output = Output(lease.cluster)
            outcome = lease.cluster.run_each(inside.run_item, order, timeout=limit)
            ranks = verdicts.verdicts(self._config, outcome)
            merged = verdicts.merge(ranks, outcome.together)
            lease.keep = merged.result == "passed" and not _leftover(merged)
            notes = (*_history(lease), *_silent(order))
            return Told(merged, wish, output.written(), notes)

    def _slots_for(self, size: int) -> contextlib.AbstractContextManager[None]:
        if self._slots_folder is None:  # this process runs one test at a time
            return contextlib.nullcontext()
        return slots(self._slots_folder, size, self._slots)

    def amend(self, item: pytest.Item, report: pytest.TestReport) -> None:
        """Tell in a test's report what happened in the workers."""
        told = item.stash.get(_told, None)
        if told is not None:
            del item.stash[_told]
            reporting.amend(report, told)
        output = item.stash.get(_output, None)
        if output is not None:
            report.sections += output.written().items()

    # Tests that drive a cluster themselves

    @contextlib.contextmanager
    def driven(self, item: pytest.Function) -> Iterator[LocalCluster]:
        """A cluster for a test that drives it; its workers know the test's module."""
        with _said_plainly():
            wish = marker.check(item, in_workers=False)
            order = self._order(item, wish, sending.NONE)
            cluster = self._clusters.new(wish)
        with self._slots_for(wish.size), cluster:
            cluster.run(inside.import_test, order)
            item.stash[_output] = Output(cluster)
            yield cluster

    @contextlib.contextmanager
    def cluster(self, wish: Wish, *, drain: float | None) -> Iterator[LocalCluster]:
        """A cluster of its own for whoever drives it, whatever test asks for that.

        Args:
            wish: What it is to be like.
            drain: How long the others have when one worker has ended, in seconds; None for ever.
        """
        with self._slots_for(wish.size), self._clusters.new(wish, drain=drain) as cluster:
            yield cluster


@contextlib.contextmanager
def _said_plainly() -> Iterator[None]:
    """Show our own errors without our own lines."""
    try:
        yield
    except TfdistError as error:
        raise Failed(str(error), pytrace=False) from None


@contextlib.contextmanager
def _terminal_lent(config: pytest.Config, *, lent: bool) -> Iterator[None]:
    """While a worker has the terminal, have pytest's process not capture what is written there."""
    manager: Any = config.pluginmanager.getplugin("capturemanager") if lent else None
    if manager is None:
        yield
        return
    manager.suspend(in_=True)
    try:
        yield
    finally:
        manager.resume()


def _leftover(merged: Merged) -> bool:
    return any(verdict.ran is None or verdict.ran.leftover for verdict in merged.verdicts)


def _history(lease: Lease) -> Iterator[str]:
    if lease.tests:
        tests = "one test" if lease.tests == 1 else f"{lease.tests} tests"
        yield f"{tests} had used these processes before; --tfdist-fresh gives each its own"


def _silent(order: Order) -> Iterator[str]:
    """Name the fixtures that may have done something here that the test expects there."""
    if order.values.silent:
        names = ", ".join(order.values.silent)
        yield f"made in pytest's own process, not in the workers: {names}"


def _warn(merged: Merged) -> None:
    """Warn here of what the workers warned of, each once."""
    told = {warning: None for rank in merged.verdicts if rank.ran for warning in rank.ran.warnings}
    with warnings.catch_warnings():
        warnings.simplefilter("always")  # the workers have sifted them
        for packed, text, filename, line in told:
            warnings.warn_explicit(_warning(packed, text), None, filename, line)


def _warning(packed: bytes, text: str) -> Warning:
    try:
        category: type[Warning] = pickle.loads(packed)
        return category(text)
    except Exception:  # of a class that this process does not know, or cannot make so
        return UserWarning(text)


def _conclude(merged: Merged) -> None:
    """End the test as the workers did; the report is amended afterwards."""
    cause = merged.cause
    if cause is None:
        return
    for verdict in merged.verdicts:
        if verdict.ran is not None and verdict.ran.quit:
            pytest.exit(f"{verdict.ran.quit} (in {verdict.name})", verdict.ran.quit_code)
    if merged.result == "skipped":
        pytest.skip(cause.text)
    if merged.result == "xfailed":
        pytest.xfail(cause.text)
    raise _FailedInAWorker(f"{cause.name} {cause.kind}: {cause.text}", pytrace=False)


class _FailedInAWorker(Failed, bdb.BdbQuit):
    """A failure that pytest does not follow with a debugger here, where there is nothing to see."""
