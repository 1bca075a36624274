"""Carries out what was asked for: check -> plan -> attempt -> outcome."""

from __future__ import annotations

from collections.abc import Mapping

from tfdist_kit.launcher import temp
from tfdist_kit.launcher.attempt import Attempt
from tfdist_kit.launcher.network import network
from tfdist_kit.launcher.outcome import Outcome
from tfdist_kit.launcher.plan import RunPlan, RunRequest, check, make_plan
from tfdist_kit.launcher.run_dir import RunDir


def run(request: RunRequest, environ: Mapping[str, str]) -> Outcome:
    """Do what was asked for: check, plan, start, supervise, sum up.

    Args:
        request: What was asked for.
        environ: The environment that the workers inherit.

    Raises:
        UsageError: It cannot be done; nothing was started.
    """
    check(request, environ)
    with (
        network(request.size, isolate=request.isolate) as place,
        RunDir(request.log_dir) as folder,
        temp.scratch() as scratch,
    ):
        plan = make_plan(
            request, network=place, run_dir=folder.path, scratch=scratch, environ=environ
        )
        folder.begin(plan.to_dict())
        return Attempt(plan, folder, environ, place).run()


def dry_run(request: RunRequest, environ: Mapping[str, str]) -> RunPlan:
    """The plan that `run` would carry out; ports and run folder are chosen anew each time."""
    check(request, environ)
    run_dir = (request.log_dir or temp.home() / "RUN_DIR").absolute()
    scratch = temp.home() / "TMPDIR"
    with network(request.size, isolate=request.isolate) as place:
        return make_plan(request, network=place, run_dir=run_dir, scratch=scratch, environ=environ)
