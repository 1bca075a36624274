"""What a worker is told to do: run one test, as this pytest would.

the session's configuration, a test and its values -> Order -> arguments of a pytest of its own
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tfdist_kit.testing.sending import Values

# What belongs to a whole session: a worker's pytest has one test, no terminal and no report files.
_NOT_PASSED_ON = frozenset(
    {
        *("addopts", "basetemp", "cacheclear", "cacheshow", "capture", "collectonly", "color"),
        *("continue_on_collection_errors", "deselect", "dist", "durations", "durations_min"),
        *("failedfirst", "file_or_dir", "help", "ignore", "ignore_glob", "inifilename"),
        *("junitprefix", "keyword", "last_failed_no_failures", "lf", "lsof", "markexpr"),
        *("maxfail", "maxprocesses", "newfirst", "no_header", "no_summary", "numprocesses"),
        *("override_ini", "pastebin", "plugins", "pyargs", "pythonwarnings", "rootdir"),
        *("report_log", "reportchars", "setuponly", "setupplan", "setupshow", "stepwise"),
        *("stepwise_reset", "stepwise_skip", "trace", "tx", "usepdb", "version", "xmlpath"),
        *("testrunuid", "htmlpath", "json_report", "debug"),
    }
)
_FLAGS = {
    "disable_plugin_autoload": "--disable-plugin-autoload",
    "noconftest": "--noconftest",
}
# A worker has imported the kit long before its pytest would have it rewritten.
_LATE_REWRITE = (
    "ignore:Module already imported so cannot be rewritten:pytest.PytestAssertRewriteWarning"
)
_NOT_PASSED_ON_PREFIXES = ("cov", "no_cov", "px", "rsync", "looponfail", "tfdist", "benchmark")


@dataclass(frozen=True)
class Order:
    """One test, for one call to all workers.

    Attributes:
        nodeid: The test.
        args: For ``pytest.main``.
        start: Where pytest was started.
        cwd: Where the test is run.
        options: The session's options, by name, pickled one by one.
        values: The values of the fixtures that are not made in the workers.
        local_replicas: How many replicas a strategy has in each worker.
        coverage: How to measure coverage (see `coverage_data`); None if that is not done.
        debug_rank: The rank that has the terminal, if one does.
        debugger: Whether a failure is followed by a debugger there.
    """

    nodeid: str
    args: tuple[str, ...]
    start: str
    cwd: str
    options: Mapping[str, bytes]
    values: Values
    local_replicas: int
    coverage: Mapping[str, Any] | None = None
    debug_rank: int | None = None
    debugger: bool = False


def order_for(
    item: pytest.Function,
    values: Values,
    *,
    local_replicas: int,
    coverage: Mapping[str, Any] | None,
    debug_rank: int | None,
) -> Order:
    """The order to run `item`; the arguments are those of `Order`."""
    config = item.config
    return Order(
        nodeid=item.nodeid,
        args=_arguments(item),
        start=str(config.invocation_params.dir),
        cwd=os.getcwd(),
        options=_options(config),
        values=values,
        local_replicas=local_replicas,
        coverage=coverage,
        debug_rank=debug_rank,
        debugger=config.option.usepdb,
    )


def _arguments(item: pytest.Function) -> tuple[str, ...]:
    config = item.config
    _, _, rest = item.nodeid.partition("::")
    given = config.option
    path = os.path.relpath(item.path, config.invocation_params.dir)  # brackets may lie above
    args = [f"{path}::{rest}", "-q", f"--rootdir={config.rootpath}"]
    args += [f"--import-mode={given.importmode}"]
    for option, flag in _FLAGS.items():
        if getattr(given, option, False):
            args.append(flag)
    if config.pluginmanager.hasplugin("capture"):
        args.append("--capture=no")
    if config.inipath is not None:
        args += ["-c", str(config.inipath)]
    for plugin in given.plugins or ():
        args += ["-p", plugin]
    for setting in given.override_ini or ():
        args += ["-o", setting]
    for warning in given.pythonwarnings or ():
        args += ["-W", warning]
    return (*args, "-W", _LATE_REWRITE, "-o", "addopts=")


def _options(config: pytest.Config) -> dict[str, bytes]:
    """The options that a worker's pytest has, too: how to show things, and a project's own."""
    passed = {}
    for name, value in vars(config.option).items():
        if name in _NOT_PASSED_ON or name.startswith(_NOT_PASSED_ON_PREFIXES):
            continue
        try:
            passed[name] = pickle.dumps(value)
        except Exception:  # nothing that came from a command line
            continue
    return passed
