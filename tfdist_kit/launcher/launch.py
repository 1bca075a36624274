"""Carries out what was asked for: check -> plan -> attempt -> outcome."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from tfdist_kit.launcher import start_method, temp
from tfdist_kit.launcher.attempt import Attempt
from tfdist_kit.launcher.outcome import Outcome
from tfdist_kit.launcher.plan import RunPlan, RunRequest, check, make_plan
from tfdist_kit.launcher.ports import HeldPorts
from tfdist_kit.launcher.preload import Preloaded
from tfdist_kit.launcher.run_dir import RunDir
from tfdist_kit.launcher.spawn import FreshSpawner, Spawner
from tfdist_kit.launcher.start_method import StartMethod


def run(request: RunRequest, environ: Mapping[str, str]) -> Outcome:
    """Do what was asked for: check, plan, start, supervise, sum up.

    Args:
        request: What was asked for.
        environ: The environment that the workers inherit.

    Raises:
        UsageError: It cannot be done; nothing was started.
    """
    check(request)
    with (
        HeldPorts(request.size) as held,
        RunDir(request.log_dir) as folder,
        temp.scratch() as scratch,
    ):
        plan = make_plan(
            request,
            ports=held.numbers,
            run_dir=folder.path,
            scratch=scratch,
            environ=environ,
            start=_start_method(request, environ),
        )
        folder.begin(plan.to_dict())
        with _spawner(plan, environ) as spawner:
            return Attempt(plan, folder, environ, spawner).run()


def dry_run(request: RunRequest, environ: Mapping[str, str]) -> RunPlan:
    """The plan that `run` would carry out; ports and run folder are chosen anew each time."""
    check(request)
    run_dir = (request.log_dir or temp.home() / "RUN_DIR").absolute()
    scratch = temp.home() / "TMPDIR"
    with HeldPorts(request.size) as held:
        return make_plan(
            request,
            ports=held.numbers,
            run_dir=run_dir,
            scratch=scratch,
            environ=environ,
            start=_start_method(request, environ),
        )


def _start_method(request: RunRequest, environ: Mapping[str, str]) -> StartMethod:
    return start_method.choose(
        request.start_method,
        request.target,
        is_module=request.is_module,
        environ={**environ, **request.env},
    )


@contextlib.contextmanager
def _spawner(plan: RunPlan, environ: Mapping[str, str]) -> Iterator[Spawner]:
    """What brings the plan's workers to life."""
    if not plan.start.preload:
        yield FreshSpawner()
        return
    with (plan.run_dir / "preload.log").open("wb") as log:
        preloaded = Preloaded(plan.start.preload, {**environ, **plan.common_env}, log.fileno())
    with contextlib.closing(preloaded):
        yield preloaded
