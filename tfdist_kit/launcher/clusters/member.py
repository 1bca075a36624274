"""One worker of a `LocalCluster`, as its caller sees it."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from tfdist_kit._errors import WorkerLostError
from tfdist_kit.launcher.hangs import proc, stacks
from tfdist_kit.launcher.network.place import Network
from tfdist_kit.launcher.output.streams import STREAM_FDS
from tfdist_kit.launcher.plan import RunPlan, WorkerPlan
from tfdist_kit.launcher.start.spawn import Birth, FreshSpawner, Spawner, WorkerProcess
from tfdist_kit.launcher.summary import signal_name


@dataclass
class Member:
    """A worker that waits for calls.

    Attributes:
        plan: Its part of the plan.
        process: Its process.
        control: The channel to it.
        started: When its process started (see `proc.start_time`).
    """

    plan: WorkerPlan
    process: WorkerProcess
    control: socket.socket
    started: int | None

    @property
    def rank(self) -> int:
        """Its rank."""
        return self.plan.rank

    @property
    def target(self) -> stacks.Target:
        """How to ask it where it is."""
        pid = None if self.has_died else self.process.pid
        folder, joins = self.plan.folder, self.plan.joins
        return stacks.Target(self.rank, self.plan.name, folder, pid, self.started, joins)

    @property
    def has_died(self) -> bool:
        """Whether its process has ended."""
        return self.process.returncode() is not None

    def check_alive(self) -> None:
        """Refuse to go on without it.

        Raises:
            WorkerLostError: Its process has ended.
        """
        if self.has_died:
            raise self.lost()

    def lost(self) -> WorkerLostError:
        """The error that says how its process ended."""
        return WorkerLostError(
            f"{self.plan.name} {self.ending}",
            hint=f"restart() the cluster, or leave it out with ranks=; logs in {self.plan.folder}",
            rank=self.rank,
            returncode=self.process.returncode(),
        )

    @property
    def ending(self) -> str:
        """How its process ended, in words."""
        code = self.process.returncode()
        if code is None:
            return "has ended"
        return f"was killed by {signal_name(-code)}" if code < 0 else f"left with exit code {code}"

    def leave(self) -> None:
        """Tell it that there will be no more calls, and that nobody needs it any more."""
        self.control.close()
        self.process.release()

    def close(self) -> None:
        """Give up everything that leads to it."""
        self.control.close()
        self.process.close()


def start_member(plan: RunPlan, worker: WorkerPlan, spawner: Spawner, place: Network) -> Member:
    """Start one worker."""
    worker.folder.mkdir()
    ours, theirs = socket.socketpair()
    with contextlib.ExitStack() as on_failure, contextlib.ExitStack() as always:
        on_failure.callback(ours.close)
        always.callback(theirs.close)
        given = {"calls": theirs.fileno(), **place.fds}
        for name, path in _files(worker).items():
            given[name] = always.enter_context(path.open("wb", buffering=0)).fileno()
        if worker.foreground:
            given |= STREAM_FDS
        env = {**os.environ, **worker.env}
        argv = tuple(sys.argv) or ("",)
        orders, on_terminal = plan.orders(worker), worker.foreground
        birth = Birth(worker.rank, worker.name, argv, env, orders, given, on_terminal)
        process = (FreshSpawner() if on_terminal else spawner).spawn(birth)
        on_failure.pop_all()
    return Member(worker, process, ours, proc.start_time(process.pid))


def _files(worker: WorkerPlan) -> dict[str, Path]:
    """Where a worker writes without anybody reading meanwhile."""
    logs = {} if worker.foreground else {name: worker.folder / f"{name}.log" for name in STREAM_FDS}
    return {**logs, "report": Path(os.devnull)}
