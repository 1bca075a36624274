"""A process that imports TensorFlow once, does nothing with it, and is forked for each worker.

    launcher --fork, descriptors--> zygote --fork--> worker: made like a fresh interpreter -> serve
             <-------- pid --------
             --------- reap ------>
             <----- exit code -----

A worker that has ended stays a zombie until the launcher asks how it ended, so that its number
always means that worker. The zygote starts no thread, runs no operation and handles no signal.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.machinery
import json
import os
import random
import socket
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from tfdist_kit._errors import UsageError
from tfdist_kit.launcher.inside import report, worker
from tfdist_kit.launcher.start import channel
from tfdist_kit.launcher.start.hidden import BRINGS, Hidden
from tfdist_kit.launcher.start.spawn import boot_command, reap

_HINT_FOR_CALLS = "give the variable to LocalCluster(env={...}), or use start_method='fresh'"


def main(orders: str) -> NoReturn:
    """Import, then fork on request until the launcher closes the channel or dies."""
    told = json.loads(orders)
    before = set(sys.modules)
    worker.die_with_launcher(told["fds"]["alive"])
    control = socket.socket(fileno=told["fds"]["control"])
    control.set_inheritable(False)
    environ = dict(os.environ)
    filters = list(warnings.filters)
    _import(told["modules"], control)
    made = {name: value for name, value in os.environ.items() if environ.get(name) != value}
    extra = {name.partition(".")[0] for name in sys.modules.keys() - before}
    loaded = Loaded(environ, made, filters, frozenset(extra - BRINGS.keys()))
    child = _serve(control)
    control.close()
    os.close(told["fds"]["alive"])
    become_worker(child, loaded)


def _import(modules: Sequence[str], control: socket.socket) -> None:
    begin = time.monotonic()
    gc.disable()
    try:
        for name in modules:
            importlib.import_module(name)
    except BaseException as error:
        channel.send(control, {"failed": f"{type(error).__name__}: {error}"})
        os._exit(1)
    gc.enable()
    gc.freeze()  # the workers share these objects; nobody has to look through them again
    channel.send(control, {"ready": time.monotonic() - begin})


@dataclass(frozen=True)
class Child:
    """What the launcher asks a new worker to be.

    Attributes:
        request: Its environment, folder, arguments and orders.
        fds: Its descriptors, by name.
    """

    request: Mapping[str, Any]
    fds: Mapping[str, int]


@dataclass(frozen=True)
class Loaded:
    """What the imports of the zygote depended on and changed.

    Attributes:
        environ: The environment before them.
        made: The variables that they set.
        filters: The warning filters before them.
        others: The other modules that they brought in, which are not hidden.
    """

    environ: Mapping[str, str]
    made: Mapping[str, str]
    filters: Sequence[Any]
    others: frozenset[str]


def _serve(control: socket.socket) -> Child:
    """Answer requests; returns in each forked child."""
    while (got := channel.receive(control)) is not None:
        request, fds = got
        if "reap" in request:
            with contextlib.suppress(ChildProcessError):
                channel.send(control, {"code": reap(request["reap"])})
            continue
        try:
            pid = _fork()
        except OSError as error:
            channel.send(control, {"refused": str(error)})
        else:
            if pid == 0:
                return Child(request, dict(zip(request["names"], fds, strict=True)))
            channel.send(control, {"pid": pid})
        for fd in fds:
            os.close(fd)
    os._exit(0)


def _fork() -> int:
    with warnings.catch_warnings():
        # Newer Pythons warn of threads. The only one here is OpenBLAS', which minds forks itself.
        warnings.simplefilter("ignore")
        return os.fork()


def become_worker(child: Child, loaded: Loaded) -> NoReturn:
    """Make a forked process look like a fresh interpreter, and be a worker in it."""
    request = child.request
    os.setsid()
    for number, name in enumerate(("stdout", "stderr"), start=1):
        os.dup2(child.fds[name], number)
        os.close(child.fds[name])
    os.umask(request["umask"])
    os.chdir(request["cwd"])
    _set_environment(request["env"])
    _draw_anew()
    sys.argv[:] = request["argv"]
    fds = {name: fd for name, fd in child.fds.items() if name not in ("stdout", "stderr")}
    orders = worker.settle(worker.Orders(**request["orders"], fds=fds))

    def begin_afresh(reason: str) -> None:
        if orders.kind == worker.CALLS:
            raise UsageError(reason, hint=_HINT_FOR_CALLS)
        if report.is_the_worker():
            _begin_afresh(request, orders, reason)

    Hidden(loaded.environ, loaded.made, loaded.filters, begin_afresh).hide()
    shadow = _shadow(orders, loaded.others)
    if shadow and orders.kind != worker.CALLS:
        begin_afresh(f"the program's folder has a module of its own called {shadow}")
    worker.serve(orders)


def _set_environment(environ: Mapping[str, str]) -> None:
    for name in os.environ.keys() - environ.keys():
        del os.environ[name]
    os.environ.update(environ)


def _draw_anew() -> None:
    """Give this worker random numbers and names of its own, as a fresh interpreter has them."""
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    if "multiprocessing.process" in sys.modules:
        process = sys.modules["multiprocessing.process"].current_process()
        process.authkey = os.urandom(32)
    tempfile.tempdir = None
    time.tzset()


def _shadow(orders: worker.Orders, others: frozenset[str]) -> str:
    """A module that is loaded here, and would come from the program's folder in an interpreter."""
    finder = importlib.machinery.PathFinder
    folder = worker.first_folder(orders.kind, orders.target)
    try:
        names = {entry.name.partition(".")[0] for entry in os.scandir(folder)}
    except OSError:
        return ""
    specs = ((name, finder.find_spec(name, [folder])) for name in sorted(names & others))
    return next((name for name, spec in specs if spec and spec.loader), "")


def _begin_afresh(request: Mapping[str, Any], orders: worker.Orders, reason: str) -> None:
    report.say("afresh", reason)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    for fd in orders.fds.values():
        os.set_inheritable(fd, True)
    os.chdir(request["cwd"])
    os.umask(request["umask"])
    told = {**request["orders"], "fds": dict(orders.fds)}
    command = boot_command("inside.worker", told, tuple(request["argv"]))
    os.execve(command[0], command, request["env"])
