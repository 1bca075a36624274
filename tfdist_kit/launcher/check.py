"""Refuses a request that cannot be carried out, before anything is started or written.

One error at a time: what was given, why it cannot be, what to do.
"""

from __future__ import annotations

import math
import os
import resource
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import get_args

from tfdist_kit._errors import UsageError
from tfdist_kit.launcher.plan import OWN_VARIABLES
from tfdist_kit.launcher.request import RestartWish, RunRequest
from tfdist_kit.launcher.start import gpus
from tfdist_kit.launcher.start.start_method import Wish
from tfdist_kit.launcher.target import check_target

DESCRIPTORS_PER_WORKER = 8
OWN_DESCRIPTORS = 32
_OPTIONS: Mapping[str, str] = {
    "total": "--timeout",
    "start": "--start-timeout",
    "evaluator": "--evaluator-timeout",
    "save": "--save-timeout",
    "stall": "--stall-timeout",
}


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
    _check_characters(request)
    check_target(request.target, is_module=request.is_module)
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
    """Refuse a variable that cannot be set, or that each worker needs a value of its own for.

    Raises:
        UsageError: Names it.
    """
    for name, value in request.env.items():
        if not name or "=" in name:
            raise UsageError(
                f"the name of a variable is {name!r}", hint="give one that is not empty, without ="
            )
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


def _check_characters(request: RunRequest) -> None:
    """Refuse what no program can be given: the system's strings end at a NUL."""
    for what, text in _texts(request):
        if "\0" in text:
            raise UsageError(f"{what} has a NUL character in it: {text!r}", hint="leave it out")


def _texts(request: RunRequest) -> Iterator[tuple[str, str]]:
    yield "the script's name", request.target
    yield from (("an argument of the script", argument) for argument in request.args)
    yield from (("the name of a variable", name) for name in request.env)
    yield from ((f"the variable {name}", value) for name, value in request.env.items())
    yield "the run folder's name", str(request.log_dir or "")


def _check_numbers(request: RunRequest) -> None:
    for name, value in asdict(request.deadlines).items():
        if value is not None:
            _check_seconds(_OPTIONS.get(name, f"--{name}"), value)


def _check_restarts(wish: RestartWish) -> None:
    if wish.limit < 0:
        raise UsageError(f"the number of restarts is {wish.limit}", hint="give 0 for none")
    _check_seconds("--restart-delay", wish.delay)


def _check_seconds(option: str, value: float) -> None:
    try:
        value = float(value)
    except OverflowError:  # a preset may hold a whole number of any size
        value = math.inf
    if not (math.isfinite(value) and value >= 0):
        raise UsageError(
            f"{option} is {value} s", hint="give a number of seconds that is not negative"
        )
