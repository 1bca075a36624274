"""How a worker process comes to life: a fresh interpreter, in a process group of its own.

Each worker is given the reading end of a pipe that the launcher never writes to (its end-of-file
is the launcher's death) and the writing end of a pipe for its reports.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tfdist_kit
from tfdist_kit._errors import UsageError
from tfdist_kit.launcher.plan import RunPlan, WorkerPlan

_ROOT = str(Path(tfdist_kit.__file__).parents[1])

# The working directory must not be searched for our own imports: it may hold a `json.py`. The
# script's own search path is then what `python script.py` would have.
_BOOT = """\
import sys
sys.path = [entry for entry in sys.path if entry]
try: import tfdist_kit
except ImportError: sys.path.append({root!r})
from tfdist_kit.launcher.worker import main
mine, sys.argv = sys.argv[1:7], sys.argv[6:]
main(*mine)
"""


@dataclass
class WorkerProcess:
    """A worker that was started, and the launcher's ends of its pipes.

    Attributes:
        rank: Its rank.
        process: The process; also the leader of its process group.
        alive_fd: Closing it ends the worker.
        report_fd: Where its phases are read, a word a line.
        pidfd: Becomes readable when the process ends; None where the kernel has none.
    """

    rank: int
    process: subprocess.Popen[bytes]
    alive_fd: int
    report_fd: int
    pidfd: int | None

    def output_fds(self) -> dict[str, int]:
        """Where its output is read, by stream; nowhere if it has the terminal."""
        streams = {"stdout": self.process.stdout, "stderr": self.process.stderr}
        return {name: stream.fileno() for name, stream in streams.items() if stream is not None}

    @property
    def has_ended(self) -> bool:
        """Whether its end has been taken note of."""
        return self.process.returncode is not None

    def send(self, signum: int) -> None:
        """Send a signal to the worker's whole process group, if there is still one."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signum)

    def returncode(self) -> int | None:
        """How the process ended, or None; whatever it left in its group is killed first.

        The group is killed while the dead leader is not reaped yet, so that the group's number
        cannot have gone to somebody else.
        """
        if os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return None
        self.send(signal.SIGKILL)
        return self.process.wait()

    def close(self) -> None:
        """Give up the launcher's ends; a worker that still lives is killed by it."""
        for fd in (self.alive_fd, self.report_fd, self.pidfd):
            if fd is not None:
                os.close(fd)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


def spawn(
    plan: RunPlan,
    worker: WorkerPlan,
    environ: Mapping[str, str],
    network_fds: Sequence[int] = (),
) -> WorkerProcess:
    """Start one worker.

    Args:
        plan: The run.
        worker: Which of its workers.
        environ: The launcher's environment; the worker's own variables are put on top.
        network_fds: The private network that it enters, if any.
    """
    try:
        return _spawn(plan, worker, environ, network_fds)
    except OSError as error:
        raise UsageError(
            f"{worker.name} cannot be started: {error}",
            hint="the system refused a process, a file or memory: see ulimit -a and free",
        ) from error


def _spawn(
    plan: RunPlan, worker: WorkerPlan, environ: Mapping[str, str], network_fds: Sequence[int]
) -> WorkerProcess:
    with contextlib.ExitStack() as on_failure, contextlib.ExitStack() as always:
        alive_read, alive_write = os.pipe()
        always.callback(os.close, alive_read)
        on_failure.callback(os.close, alive_write)
        report_read, report_write = os.pipe()
        always.callback(os.close, report_write)
        on_failure.callback(os.close, report_read)
        os.set_blocking(report_read, False)
        fds = [alive_read, report_write, *network_fds]
        network = ",".join(map(str, network_fds))
        own = [str(alive_read), str(report_write), network]
        own += [str(worker.folder), plan.kind, plan.target]
        process = subprocess.Popen(
            [plan.python, "-c", _BOOT.format(root=_ROOT), *own, *plan.args],
            env={**environ, **worker.env},
            pass_fds=fds,
            bufsize=0,
            **_surroundings(worker),
        )
        on_failure.pop_all()
    return WorkerProcess(worker.rank, process, alive_write, report_read, _open_pidfd(process.pid))


def _surroundings(worker: WorkerPlan) -> dict[str, Any]:
    """The worker's input and output, and how it gets a process group of its own."""
    pipe = subprocess.PIPE
    if not worker.foreground:
        no_input = subprocess.DEVNULL
        return {"stdin": no_input, "stdout": pipe, "stderr": pipe, "start_new_session": True}
    if sys.version_info >= (3, 11):  # in a session of its own it would have no terminal
        own_group: dict[str, Any] = {"process_group": 0}
    else:
        own_group = {"preexec_fn": os.setpgrp}
    return own_group


def _open_pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
