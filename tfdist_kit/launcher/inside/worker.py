"""What runs in a worker process before, around and after the user's code.

``spawn`` starts ``main`` in a fresh interpreter, `zygote` calls ``serve`` in a forked one: enter
the cluster's private network, if there is one -> tie this process group's life to the launcher's
-> run the script or module as ``__main__`` -> record how it ended -> wait until every worker has
ended, where they trained together -> leave.

It changes nothing that a program could notice: ``__main__``, ``sys.argv``, ``sys.path`` and the
exit code are those of ``python script.py``.
"""

from __future__ import annotations

import builtins
import contextlib
import faulthandler
import fcntl
import importlib.machinery
import importlib.util
import io
import json
import os
import resource
import select
import signal
import sys
import threading
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import NoReturn

from tfdist_kit import _first_use, _frames
from tfdist_kit._errors import text_of
from tfdist_kit.launcher import exits, failure
from tfdist_kit.launcher.inside import leaving, on_import, report, stack_dump
from tfdist_kit.launcher.network import ports

_OWN_FILES = (__file__, importlib.machinery.__file__, "<frozen importlib")
_HIGH = 4096
CALLS = "calls"
NETWORK = "network"
"""What the names of the descriptors of a private network begin with."""
KEYBOARD_INTERRUPT_EXIT = 128 + signal.SIGINT


@dataclass(frozen=True)
class Orders:
    """What a worker is told.

    Attributes:
        folder: Where it leaves its records.
        kind: What to run: a key of `LOADERS`, or `CALLS` to do what a `LocalCluster` asks.
        target: Which one.
        fast_exit: Whether to leave without the interpreter's own teardown.
        fds: Its ends of the pipes (see `pipes`).
    """

    folder: str
    kind: str
    target: str
    fast_exit: bool
    fds: Mapping[str, int]


def die_with_launcher(alive_fd: int) -> None:
    """Have this whole process group killed when the launcher's end of a pipe closes.

    The kernel does it (SIGKILL on the pipe's end-of-file), so that it works while native code
    holds the interpreter's lock, as TensorFlow does while it waits for its peers. Where the
    kernel cannot, a thread does.
    """
    os.set_inheritable(alive_fd, False)
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(alive_fd, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(alive_fd, fcntl.F_SETSIG, signal.SIGKILL)
        flags = fcntl.fcntl(alive_fd, fcntl.F_GETFL)
        fcntl.fcntl(alive_fd, fcntl.F_SETFL, flags | os.O_ASYNC | os.O_NONBLOCK)
        _die_if_it_has_gone(alive_fd)
    else:
        threading.Thread(target=_wait_and_die, args=(alive_fd,), daemon=True).start()


def _die_if_it_has_gone(alive_fd: int) -> None:
    """The kernel signals only what happens after it was asked to."""
    poll = select.poll()
    poll.register(alive_fd, select.POLLIN)
    if poll.poll(0):
        os.killpg(os.getpgrp(), signal.SIGKILL)


def _out_of_the_way(fd: int) -> int:
    """Move a descriptor to where a script that closes "all" of them hardly looks."""
    soft_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, min(soft_limit, _HIGH) - 8)
    except OSError:
        return fd
    os.close(fd)
    return moved


def _wait_and_die(alive_fd: int) -> None:
    os.read(alive_fd, 1)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def load_script(path: str, module: types.ModuleType) -> types.CodeType:
    """Prepare `module` to be ``__main__`` for the script at `path`, and compile it."""
    path = os.path.abspath(path)
    module.__file__ = path
    module.__loader__ = importlib.machinery.SourceFileLoader("__main__", path)
    _search_first(first_folder("script", path))
    with io.open_code(path) as file:
        return compile(file.read(), path, "exec", dont_inherit=True)


def load_module(name: str, module: types.ModuleType) -> types.CodeType:
    """Prepare `module` to be ``__main__`` for the module `name`, and compile it."""
    _search_first(first_folder("module", name))
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{name}.__main__")
    loader = spec and spec.loader
    if spec is None or not isinstance(loader, importlib.machinery.SourceFileLoader):
        raise ImportError(f"No module named {name!r} that can be run")
    code = loader.get_code(spec.name)
    if code is None:
        raise ImportError(f"No code object available for {spec.name}")
    module.__file__, module.__loader__, module.__spec__ = spec.origin, loader, spec
    module.__package__ = spec.parent
    sys.argv[0] = spec.origin or name
    return code


def first_folder(kind: str, target: str) -> str:
    """The folder in which Python searches first for the modules of a program."""
    return os.path.dirname(os.path.realpath(target)) if kind == "script" else os.getcwd()


def _search_first(folder: str) -> None:
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, folder)


LOADERS: dict[str, Callable[[str, types.ModuleType], types.CodeType]] = {
    "script": load_script,
    "module": load_module,
}


def run_program(orders: Orders) -> None:
    """Run what the orders name."""
    if orders.kind == CALLS:
        from tfdist_kit.launcher.clusters import (
            calls,  # here, since every other worker would pay for it
        )

        calls.answer(orders.fds[CALLS])
    else:
        run_as_main(orders.kind, orders.target)


def run_as_main(kind: str, target: str) -> None:
    """Run `target` as ``python target`` or ``python -m target`` would."""
    module = types.ModuleType("__main__")
    module.__dict__.update(__builtins__=builtins, __annotations__={}, __cached__=None)
    sys.modules["__main__"] = module  # stays: threads and atexit functions outlive this call
    if "__mp_main__" in sys.modules:  # multiprocessing was imported before, and named it so
        sys.modules["__mp_main__"] = module
    exec(LOADERS[kind](target, module), module.__dict__)


def exit_code_of(leave: SystemExit) -> int:
    """The code with which Python would leave on `leave`."""
    if leave.code is None:
        return 0
    if not isinstance(leave.code, int):
        return 1
    fits = -(1 << 63) <= leave.code < 1 << 63
    return leave.code & 0xFF if fits else 0xFF


def users_frames(frames: TracebackType | None) -> TracebackType | None:
    """Drop the launcher's own frames from the start of a traceback."""
    while frames and frames.tb_frame.f_code.co_filename.startswith(_OWN_FILES):
        frames = frames.tb_next
    return frames


def users_line(frames: TracebackType | None) -> str:
    """``file:line`` of the innermost frame that is not of an installed package."""
    found = ""
    while frames:
        if _frames.is_users(frames.tb_frame):
            found = _frames.place(frames.tb_frame.f_code.co_filename, frames.tb_lineno)
        frames = frames.tb_next
    return found


def _record(rank_dir: Path, error: BaseException, exit_code: int) -> None:
    """Leave the failure where the launcher looks for it; nothing here may hide the failure."""
    error.__traceback__ = users_frames(error.__traceback__)
    if not report.is_the_worker():  # a fork of it, whose end is the script's own affair
        return
    try:
        told = failure.describe(
            error, exit_code=exit_code, where=users_line(error.__traceback__), hint=_hint(error)
        )
        failure.record(rank_dir / "error.json", told)
    except Exception as problem:
        print(f"tfdist: cannot write error.json: {problem}", file=sys.stderr)
    report.say("preempted" if exit_code == exits.PREEMPTED_EXIT else "failed")


def _hint(error: BaseException) -> str:
    """What this process knows of the reason for `error` that its text does not say."""
    call = _first_use.culprit()
    if call is not None and "must be configured at program startup" in text_of(error):
        return f"TensorFlow was initialised before the strategy, by {call}; make the strategy first"
    return ""


def _run(orders: Orders) -> int:
    """Run the user's code and return the exit code that it ends with."""
    rank_dir = Path(orders.folder)
    try:
        run_program(orders)
    except SystemExit as leave:
        code = exit_code_of(leave)
        if leave.code is not None and not isinstance(leave.code, int):
            print(leave.code, file=sys.stderr)
        if code:
            _record(rank_dir, leave, code)
        return code
    except KeyboardInterrupt as stop:
        _record(rank_dir, stop, KEYBOARD_INTERRUPT_EXIT)
        return KEYBOARD_INTERRUPT_EXIT
    except BaseException as error:
        _record(rank_dir, error, 1)
        _show(error)
        return 1
    return 0


def _show(error: BaseException) -> None:
    """Show an exception that nobody caught, as Python does."""
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except BaseException as second:
        second.__traceback__ = users_frames(second.__traceback__)
        second.__context__ = None
        print("Error in sys.excepthook:", file=sys.stderr)
        sys.__excepthook__(type(second), second, second.__traceback__)
        print("\nOriginal exception was:", file=sys.stderr)
        sys.__excepthook__(type(error), error, error.__traceback__)


def _has_joined() -> bool:
    """Tell whether this process serves its address in TF_CONFIG, as every joined worker does."""
    try:
        config = json.loads(os.environ["TF_CONFIG"])
        address = config["cluster"][config["task"]["type"]][config["task"]["index"]]
        port = int(address.rpartition(":")[2])
    except (KeyError, ValueError, TypeError, IndexError, AttributeError):
        return True  # the script changed TF_CONFIG: it knows better than we do
    open_ports = ports.listening([port])
    return open_ports is None or port in open_ports


def main(orders: str) -> NoReturn:
    """Be the worker in a fresh interpreter; ``sys.argv`` is set by the caller.

    Args:
        orders: The worker's `Orders`, as JSON.
    """
    serve(settle(Orders(**json.loads(orders))))


def settle(orders: Orders) -> Orders:
    """Enter the network, tie this process to its launcher, and put its descriptors away.

    Imports that somebody waits for are watched from here on (`on_import`).
    """
    _enter_network([fd for name, fd in orders.fds.items() if name.startswith(NETWORK)])
    fds = {
        name: _out_of_the_way(fd) for name, fd in orders.fds.items() if not name.startswith(NETWORK)
    }
    die_with_launcher(fds["alive"])
    report.open_pipe(fds["report"])
    on_import.watch()  # before a preloaded process hides what it has
    return replace(orders, fds=fds)


def _enter_network(fds: Sequence[int]) -> None:
    """Enter the private network whose descriptors were inherited, if there is one."""
    if fds:
        from tfdist_kit.launcher.network import netns  # the others do without

        try:
            netns.enter(fds)
        except OSError as error:
            sys.exit(f"tfdist: this worker cannot enter the private network: {error}")


def serve(orders: Orders) -> NoReturn:
    """Be a worker: see the module's docstring."""
    faulthandler.enable()
    with contextlib.suppress(OSError):  # its run folder cannot be written
        stack_dump.answer(_out_of_the_way(stack_dump.open_file(orders.folder)))
    with contextlib.suppress(AttributeError):  # a line at a time, though stdout is a pipe
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    report.say("running")
    code = _run(orders)
    if not report.is_the_worker():
        sys.exit(code)  # a fork of it that has come here has nothing to do with the cluster
    leaving.end_threads()
    if code == 0:
        _finish(orders.fds["leave"])
    if orders.fast_exit:
        leaving.leave(code)
    sys.exit(code)


def _finish(leave_fd: int) -> None:
    """Tell that all went well, and stay until no peer needs this process any more."""
    if _has_joined():
        report.say("finished")
        leaving.wait_for_end_of_file(leave_fd)
    else:
        report.say("finished_without_joining")
