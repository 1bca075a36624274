"""Carries out what was asked for: check -> run folder -> attempts -> summary, outcome."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from tfdist_kit.launcher import signals, temp
from tfdist_kit.launcher.check import check
from tfdist_kit.launcher.network.place import network
from tfdist_kit.launcher.outcome import Outcome
from tfdist_kit.launcher.output import status_lines
from tfdist_kit.launcher.output.board import Board
from tfdist_kit.launcher.output.console import Console, StatusLines
from tfdist_kit.launcher.plan import RunPlan, make_plan
from tfdist_kit.launcher.request import RunRequest
from tfdist_kit.launcher.run_dir import RunDir
from tfdist_kit.launcher.series import Ending, Series
from tfdist_kit.launcher.start import memory, start_method
from tfdist_kit.launcher.start.start_method import StartMethod
from tfdist_kit.launcher.state import Why

_HURRIED_CONSOLE_WAIT = 1.0
_IN_A_HURRY = (Why.SIGNAL, Why.TIME_LIMIT, Why.STALLED)


def run(request: RunRequest, environ: Mapping[str, str]) -> Outcome:
    """Do what was asked for: check, plan, start, supervise, start again if need be, sum up.

    Args:
        request: What was asked for.
        environ: The environment that the workers inherit.

    Raises:
        UsageError: It cannot be done; nothing was started.
    """
    start = _prepare(request, environ)
    board = Board()
    live = request.console.live and request.debug_rank is None
    status = status_lines.live_view(board, 2, environ) if live else None
    with RunDir(request.log_dir) as folder, temp.scratch() as scratch, _console(status) as console:
        with signals.as_bytes() as caught:
            series = Series(request, start, environ, folder, scratch, console, board, caught)
            ending = series.run()
        # No worker is left; from here on a signal may end us as it ends any program.
        _tell(ending, folder, console)
        outcome = ending.outcome
        in_a_hurry = outcome.cause is not None and outcome.cause.why in _IN_A_HURRY
        console.close(_HURRIED_CONSOLE_WAIT if in_a_hurry else None)
    return outcome


def dry_run(request: RunRequest, environ: Mapping[str, str]) -> RunPlan:
    """The plan that `run` would carry out; ports and run folder are chosen anew each time."""
    start = _prepare(request, environ)
    run_dir = (request.log_dir or temp.home() / "RUN_DIR").absolute()
    scratch = temp.home() / "TMPDIR"
    with network(request.size, isolate=request.isolate) as place:
        return make_plan(
            request,
            network=place,
            run_dir=run_dir,
            scratch=scratch,
            environ=environ,
            start=start,
        )


def _prepare(request: RunRequest, environ: Mapping[str, str]) -> StartMethod:
    """Refuse what cannot be done, and choose how the workers are started."""
    check(request, environ)
    start = start_method.choose(
        request.start_method,
        request.target,
        is_module=request.is_module,
        environ={**environ, **request.env},
    )
    memory.check(request.size, preload=bool(start.preload), tensorflow=start.tensorflow)
    return start


def _tell(ending: Ending, folder: RunDir, console: Console) -> None:
    """Record the end of the run, and say how it came about."""
    folder.event("over", exit_code=ending.outcome.exit_code, root=ending.outcome.root)
    if folder.trouble is not None:
        console.say(f"the run folder is not complete: {folder.trouble}")
    if console.trouble is not None:
        console.say(f"some output could not be shown: {console.trouble}")
    console.say(ending.told())


@contextlib.contextmanager
def _console(status: StatusLines | None) -> Iterator[Console]:
    """A console whose thread ends even when a run cannot be started."""
    console = Console(status)
    try:
        yield console
    except BaseException:
        console.close(_HURRIED_CONSOLE_WAIT)
        raise
