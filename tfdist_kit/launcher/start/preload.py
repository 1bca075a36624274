"""The launcher's side of a `zygote`: workers that have TensorFlow imported when they begin.

    Preloaded(modules) -> zygote imports (seconds) -> spawn, spawn, ... (milliseconds each)

If the zygote cannot import what it should, or dies, workers are started in fresh interpreters, and
`trouble` says why.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

from tfdist_kit.launcher.start import channel, ours
from tfdist_kit.launcher.start.pipes import open_ends
from tfdist_kit.launcher.start.spawn import (
    Birth,
    FreshSpawner,
    WorkerProcess,
    boot_command,
    refusals_as_usage_errors,
)

_KILLED = -signal.SIGKILL
_DIED = "the preloading process has died"
_IMPORT_SECONDS = 600.0
_ANSWER_SECONDS = 30.0


class Preloaded:
    """A zygote, from its start to `close`.

    Attributes:
        trouble: Why workers are started in fresh interpreters after all, if they are.

    Args:
        modules: What it imports.
        environ: In which environment.
        log: Where it writes what the imports print.
    """

    def __init__(
        self, modules: Sequence[str], environ: Mapping[str, str], log: IO[bytes] | int
    ) -> None:
        self.trouble = ""
        self._fresh = FreshSpawner()
        self._ready = False
        self._owner = os.getpid()
        self._lock = threading.Lock()
        with contextlib.ExitStack() as on_failure, contextlib.ExitStack() as always:
            self._control, theirs = socket.socketpair()
            always.callback(theirs.close)
            on_failure.callback(self._control.close)
            alive, self._alive = os.pipe()
            always.callback(os.close, alive)
            on_failure.callback(os.close, self._alive)
            fds = {"alive": alive, "control": theirs.fileno()}
            with refusals_as_usage_errors("the preloading process"):
                self._process = subprocess.Popen(
                    boot_command("start.zygote", {"modules": list(modules), "fds": fds}, ()),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=environ,
                    pass_fds=tuple(fds.values()),
                    start_new_session=True,
                )
            on_failure.pop_all()
        ours.keep(self._alive)

    def fileno(self) -> int:
        """A descriptor that is readable when `is_ready` may have become true."""
        return self._control.fileno()

    def is_ready(self, wait: float | None = 0) -> bool:
        """Whether workers can be started.

        Args:
            wait: How long to wait for it, in seconds; None is as long as it takes.
        """
        with self._lock:
            if not self._ready and self._readable(wait):
                answer = self._receive()
                self._ready = True
                self._control.settimeout(_ANSWER_SECONDS)
                if answer is None:
                    self.trouble = _DIED
                elif "failed" in answer:
                    self.trouble = f"preloading failed: {answer['failed']}"
            return self._ready

    def _readable(self, wait: float | None) -> bool:
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        return bool(poll.poll(None if wait is None else wait * 1000))

    def is_alive(self) -> bool:
        """Whether it can still be of use."""
        return self._process.poll() is None and not self.trouble

    def spawn(self, birth: Birth) -> WorkerProcess:
        """See `spawn.Spawner`; waits until the imports are done."""
        if not self.is_ready(_IMPORT_SECONDS):
            self.trouble = f"preloading took more than {_IMPORT_SECONDS:g} s"
        if self.trouble:
            return self._fresh.spawn(birth)
        with refusals_as_usage_errors(birth.name), open_ends(birth.given) as ends:
            answer = self._ask(_request(birth, tuple(ends.workers)), tuple(ends.workers.values()))
            if answer is not None and "refused" in answer:
                raise OSError(answer["refused"])
            if answer is not None:
                pid = answer["pid"]
                return WorkerProcess(birth.rank, pid, dict(ends.ours), self._reaper(pid))
            for fd in ends.ours.values():
                os.close(fd)
        self.trouble = _DIED
        return self._fresh.spawn(birth)

    def _reaper(self, pid: int) -> Callable[[], int | None]:
        def reap_it() -> int | None:
            if os.getpid() != self._owner:
                return None  # this is a fork of the launcher, which has no say in it
            answer = self._ask({"reap": pid})
            if answer is not None:
                code: int | None = answer["code"]
                return code
            self.trouble = self.trouble or "the preloading process has died beside its workers"
            with contextlib.suppress(ProcessLookupError):  # nobody can say any more how it ended
                os.killpg(pid, signal.SIGKILL)
            return _KILLED

        return reap_it

    def _ask(self, request: Mapping[str, Any], fds: Sequence[int] = ()) -> dict[str, Any] | None:
        """Send a request and wait for its answer; None when the zygote has gone, or is stuck."""
        with self._lock:
            answer = None
            if self._process.poll() is None:
                try:
                    with contextlib.suppress(OSError):
                        channel.send(self._control, request, fds)
                        answer = self._receive()
                finally:
                    if answer is None:  # a late one would be taken for that of the next request
                        self._process.kill()
            return answer

    def _receive(self) -> dict[str, Any] | None:
        got = channel.receive(self._control)
        return None if got is None else got[0]

    def close(self) -> None:
        """End the zygote; its workers have ended, or end by their own pipes."""
        self._control.close()
        ours.close(self._alive)
        self._process.kill()
        self._process.wait()


def _request(birth: Birth, names: tuple[str, ...]) -> dict[str, Any]:
    umask = os.umask(0)
    os.umask(umask)
    return {
        "names": names,
        "argv": birth.argv,
        "env": dict(birth.env),
        "cwd": os.getcwd(),
        "umask": umask,
        "orders": dict(birth.orders),
    }
