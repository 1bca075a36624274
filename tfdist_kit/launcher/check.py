"""Refuses a request that cannot be carried out, before anything is started or written.

One error at a time: what was given, why it cannot be, what to do.
"""

from __future__ import annotations

import importlib.util
import math
import os
import resource
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import get_args

from tfdist_kit._errors import UsageError
from tfdist_kit.launcher.plan import OWN_VARIABLES
from tfdist_kit.launcher.request import RestartWish, RunRequest
from tfdist_kit.launcher.start import gpus
from tfdist_kit.launcher.start.start_method import Wish

DESCRIPTORS_PER_WORKER = 8
OWN_DESCRIPTORS = 32


def check(request: RunRequest, environ: Mapping[str, str] = os.environ) -> None:
    """Refuse a request that cannot be carried out.

    Args:
        request: What was asked for.
        environ: The environment that the workers inherit.

    Raises:
        UsageError: Something that was asked for cannot be done; says what and why.
    """
    _check_working_directory()
    check_size(request)
    _check_target(request)
    _check_numbers(request)
    _check_restarts(request.restarts)
    if request.gpus_per_worker is not None:
        gpus.share_out(request.size, request.gpus_per_worker, {**environ, **request.env})
    check_variables(request)
    check_start_method(request)


def check_start_method(request: RunRequest) -> None:
    """Refuse a start method that there is not.

    Raises:
        UsageError: Names those that there are.
    """
    if request.start_method not in get_args(Wish):
        raise UsageError(
            f"the start method is {request.start_method!r}",
            hint=f"use one of {', '.join(get_args(Wish))}",
        )


def check_variables(request: RunRequest) -> None:
    """Refuse to set a variable for all workers that each needs a value of its own for.

    Raises:
        UsageError: Names it.
    """
    for name, value in request.env.items():
        if not isinstance(value, str):
            raise UsageError(f"the variable {name} is {value!r}", hint="give it as a string")
    for name in OWN_VARIABLES:
        if name in request.env:
            raise UsageError(
                f"the variable {name} was given, but each worker needs its own value of it",
                hint=f"leave {name} out: tfdist sets it for every worker",
            )


def _check_working_directory() -> None:
    try:
        os.getcwd()
    except OSError as error:
        raise UsageError(
            f"the working directory cannot be used: {error}", hint="cd to a folder that exists"
        ) from error


def check_size(request: RunRequest) -> None:
    """Refuse a number of workers that cannot be had.

    Raises:
        UsageError: Says why.
    """
    if request.workers < 1:
        raise UsageError(
            f"the number of workers is {request.workers}",
            hint="give at least one worker, for example -n 2",
        )
    needed = OWN_DESCRIPTORS + DESCRIPTORS_PER_WORKER * request.size
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if needed > allowed != resource.RLIM_INFINITY:
        raise UsageError(
            f"{request.size} workers need some {needed} file descriptors in the launcher, and "
            f"{allowed} are allowed",
            hint=f"start fewer workers, or allow more: ulimit -n {needed}",
        )
    for rank in request.console.ranks or ():
        _check_rank(rank, request.size, "is in the rank filter")
    if request.debug_rank is not None:
        _check_rank(request.debug_rank, request.size, "is to be debugged")


def _check_rank(rank: int, size: int, why: str) -> None:
    if not 0 <= rank < size:
        raise UsageError(
            f"rank {rank} {why}, but the ranks are 0 to {size - 1}",
            hint="ranks count the chief first, then the workers, then the evaluator",
        )


def _check_target(request: RunRequest) -> None:
    if request.is_module:
        _check_module(request.target)
        return
    path = Path(request.target)
    if path.is_dir():
        raise UsageError(
            f"{request.target} is a directory, not a script",
            hint="name the script in it, or run a package with -m",
        )
    if not path.exists():
        raise UsageError(
            f"the script {request.target} does not exist (looked in {Path.cwd()})",
            hint=_hint_for_a_missing_script(path.name),
        )
    if not os.access(path, os.R_OK):
        raise UsageError(
            f"the script {request.target} cannot be read", hint=f"chmod +r {request.target}"
        )


def _hint_for_a_missing_script(name: str) -> str:
    if name.startswith("python"):
        return "leave the interpreter out: tfdist run SCRIPT starts it itself"
    return "check the path, or use -m for a module"


def _check_module(name: str) -> None:
    top = name.partition(".")[0]
    try:
        found = top in sys.modules or importlib.util.find_spec(top) is not None
    except (ValueError, ImportError):
        found = False
    if not (found or Path(top).is_dir() or Path(f"{top}.py").exists()):
        raise UsageError(
            f"no module named {name!r} can be found",
            hint=f"install it, or run from the folder that holds {top}",
        )


def _check_numbers(request: RunRequest) -> None:
    for name, value in asdict(request.deadlines).items():
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise UsageError(
                f"the {name} deadline is {value}",
                hint="give a number of seconds that is not negative",
            )


def _check_restarts(wish: RestartWish) -> None:
    if wish.limit < 0:
        raise UsageError(f"the number of restarts is {wish.limit}", hint="give 0 for none")
    if not (math.isfinite(wish.delay) and wish.delay >= 0):
        raise UsageError(
            f"the delay before a restart is {wish.delay}",
            hint="give a number of seconds that is not negative",
        )
