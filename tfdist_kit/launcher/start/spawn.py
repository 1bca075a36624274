"""How a worker process comes to life: a fresh interpreter, in a process group of its own.

    Birth (who, with what) -> Spawner -> WorkerProcess

`preload` has the other way, a fork of a process that has imported TensorFlow already.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import tfdist_kit
from tfdist_kit._errors import UsageError
from tfdist_kit.launcher.start import ours
from tfdist_kit.launcher.start.pipes import Ends, open_ends

NO_PIDFD_POLL = 0.05
_ROOT = str(Path(tfdist_kit.__file__).parents[1])

# The working directory must not be searched for our own imports: it may hold a `json.py`. The
# script's own search path is then what `python script.py` would have.
_BOOT = """\
import sys
sys.path = [entry for entry in sys.path if entry]
try: import tfdist_kit
except ImportError: sys.path.append({root!r})
from tfdist_kit.launcher.{module} import main
orders, sys.argv = sys.argv[1], sys.argv[2:]
main(orders)
"""


@dataclass(frozen=True)
class Birth:
    """A worker that is to be started.

    Attributes:
        rank: Its rank.
        name: How messages call it.
        argv: Its ``sys.argv``.
        env: Its whole environment.
        orders: What it is told beyond that (see `worker.Orders`), without its descriptors.
        given: Descriptors that it gets as they are, by name.
        foreground: Whether it has the launcher's own input and output.
    """

    rank: int
    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    orders: Mapping[str, Any]
    given: Mapping[str, int] = field(default_factory=dict)
    foreground: bool = False


class Spawner(Protocol):
    """Something that brings workers to life.

    Attributes:
        trouble: Why it does so in another way than it was made for, if it does.
    """

    trouble: str

    def fileno(self) -> int:
        """A descriptor that is readable when `is_ready` may have become true."""

    def is_ready(self) -> bool:
        """Whether workers can be started without waiting."""

    def spawn(self, birth: Birth) -> WorkerProcess:
        """Start one worker.

        Raises:
            UsageError: The system refuses; nothing is left of the try.
        """


@dataclass
class WorkerProcess:
    """A worker that was started, and the launcher's ends of its pipes.

    Attributes:
        rank: Its rank.
        pid: Of the process, which also leads its process group.
        fds: The launcher's ends (see `pipes`).
        pidfd: Becomes readable when the process ends; None where the kernel has none.
        reap: Tells how the process ended, or None while it lives; kills what it leaves.
        ended: How it ended, once that has been taken note of.
    """

    rank: int
    pid: int
    fds: dict[str, int]
    reap: Callable[[], int | None]
    pidfd: int | None = None
    ended: int | None = None
    _lock: threading.Lock = field(init=False, repr=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.pidfd = _open_pidfd(self.pid)
        ours.keep(*self.fds.values())
        if self.pidfd is not None:
            ours.keep(self.pidfd)

    @property
    def has_ended(self) -> bool:
        """Whether its end has been taken note of."""
        return self.ended is not None

    def send(self, signum: int) -> None:
        """Send a signal to the worker's whole process group, if there is still one."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signum)

    def release(self) -> None:
        """Let it leave, once its program has ended."""
        leave = self.fds.pop("leave", None)
        if leave is not None:
            ours.close(leave)

    def returncode(self) -> int | None:
        """How the process ended (negative for a signal), or None."""
        with self._lock:
            if self.ended is None:
                self.ended = self.reap()
            return self.ended

    def wait(self, seconds: float) -> None:
        """Wait for its end, at most that long."""
        deadline = time.monotonic() + seconds
        while self.returncode() is None:
            left = deadline - time.monotonic()
            if left <= 0:
                return
            if self.pidfd is None:
                time.sleep(NO_PIDFD_POLL)
                continue
            poll = select.poll()
            poll.register(self.pidfd, select.POLLIN)
            poll.poll(left * 1000)

    def kill(self) -> None:
        """End it and all that it has started, at once."""
        while not self.has_ended:
            self.send(signal.SIGKILL)
            self.wait(1.0)

    def close(self) -> None:
        """Give up the launcher's ends; a worker that still lives is killed by it."""
        ours.close(*self.fds.values())
        self.fds.clear()
        if self.pidfd is not None:
            ours.close(self.pidfd)
            self.pidfd = None

    def __del__(self) -> None:
        """Nobody has it any more: something went wrong just after it was started."""
        with contextlib.suppress(Exception):
            self.close()


def reap(pid: int) -> int | None:
    """How the child `pid` ended, or None; whatever it left in its group is killed first.

    The group is killed while the dead leader is not reaped yet, so that the group's number cannot
    have gone to somebody else.
    """
    if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        return None
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


@contextlib.contextmanager
def refusals_as_usage_errors(name: str) -> Any:
    """Say plainly what the system has against one more process."""
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"{name} cannot be started: {error}",
            hint="the system refused a process, a file or memory: see ulimit -a and free",
        ) from error


def boot_command(module: str, orders: Mapping[str, Any], argv: tuple[str, ...]) -> list[str]:
    """The command of a fresh interpreter that calls ``main(orders)`` of one of our modules."""
    code = _BOOT.format(root=_ROOT, module=module)
    return [sys.executable, "-c", code, json.dumps(orders), *argv]


class FreshSpawner:
    """Starts each worker in an interpreter of its own."""

    trouble = ""

    def fileno(self) -> int:
        """See `Spawner`; it is always ready."""
        return -1

    def is_ready(self) -> bool:
        """See `Spawner`."""
        return True

    def spawn(self, birth: Birth) -> WorkerProcess:
        """See `Spawner`."""
        with refusals_as_usage_errors(birth.name), open_ends(birth.given) as ends:
            process = _start(birth, ends)
            return WorkerProcess(birth.rank, process.pid, dict(ends.ours), _reaper(process))


def _start(birth: Birth, ends: Ends) -> subprocess.Popen[bytes]:
    inherited = {name: fd for name, fd in ends.workers.items() if name not in ("stdout", "stderr")}
    return subprocess.Popen(
        boot_command("inside.worker", {**birth.orders, "fds": inherited}, birth.argv),
        env=birth.env,
        pass_fds=tuple(inherited.values()),
        **_surroundings(birth, ends),
    )


def _reaper(process: subprocess.Popen[bytes]) -> Callable[[], int | None]:
    def reap_it() -> int | None:
        code = reap(process.pid)
        if code is not None:
            process.returncode = code  # so that it does not look for the process once more
        return code

    return reap_it


def _surroundings(birth: Birth, ends: Ends) -> dict[str, Any]:
    """The worker's input and output, and how it gets a process group of its own."""
    if not birth.foreground:
        streams = {name: ends.workers[name] for name in ("stdout", "stderr")}
        return {"stdin": subprocess.DEVNULL, "start_new_session": True, **streams}
    # In a session of its own it would have no terminal.
    new = sys.version_info >= (3, 11)
    return {"process_group": 0} if new else {"preexec_fn": os.setpgrp}


def _open_pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
