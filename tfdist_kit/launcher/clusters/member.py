"""One worker of a `LocalCluster`, as its caller sees it, and the wait for several of them.

packed call -> every member's channel -> answers as they come; deaths; one deadline for all
"""

from __future__ import annotations

import contextlib
import os
import pickle
import selectors
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tfdist_kit._errors import WorkerLostError
from tfdist_kit.launcher.clusters.calls import Answer, Raised
from tfdist_kit.launcher.hangs import proc, stacks
from tfdist_kit.launcher.network.place import Network
from tfdist_kit.launcher.plan import RunPlan, WorkerPlan
from tfdist_kit.launcher.start import channel
from tfdist_kit.launcher.start.spawn import Birth, Spawner, WorkerProcess
from tfdist_kit.launcher.summary import signal_name

_STREAMS = ("stdout", "stderr")


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
        pid = self.process.pid if self.process.returncode() is None else None
        folder, joins = self.plan.folder, self.plan.joins
        return stacks.Target(self.rank, self.plan.name, folder, pid, self.started, joins)

    def check_alive(self) -> None:
        """Refuse to go on without it.

        Raises:
            WorkerLostError: Its process has ended.
        """
        if self.process.returncode() is not None:
            raise self.lost()

    def lost(self) -> WorkerLostError:
        """The error that says how its process ended."""
        code = self.process.returncode()
        how = "has ended"
        if code is not None:
            how = (
                f"was killed by {signal_name(-code)}" if code < 0 else f"left with exit code {code}"
            )
        return WorkerLostError(
            f"{self.plan.name} {how}",
            hint=f"restart() the cluster, or leave it out with ranks=; logs in {self.plan.folder}",
            rank=self.rank,
            returncode=code,
        )

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
        env = {**os.environ, **worker.env}
        argv = tuple(sys.argv) or ("",)
        birth = Birth(worker.rank, worker.name, argv, env, plan.orders(worker), given)
        process = spawner.spawn(birth)
        on_failure.pop_all()
    return Member(worker, process, ours, proc.start_time(process.pid))


def _files(worker: WorkerPlan) -> dict[str, Path]:
    """Where a worker writes without anybody reading meanwhile."""
    logs = {stream: worker.folder / f"{stream}.log" for stream in _STREAMS}
    return {**logs, "report": Path(os.devnull)}


def wait_for_answers(
    members: Sequence[Member], packed: bytes, *, limit: float | None, drain: float
) -> dict[int, Answer]:
    """Send one call to all and gather what comes back.

    Args:
        members: Whom to call.
        packed: The call.
        limit: How long it may take, in seconds; None is for ever.
        drain: How long the others have once one has failed.

    Returns:
        The answers by rank; none for a member that died or did not answer in time.
    """
    return _Round(members, limit, drain).run(packed)


class _Round:
    def __init__(self, members: Sequence[Member], limit: float | None, drain: float) -> None:
        self._waiting = {member.rank: member for member in members}
        self._ends = None if limit is None else time.monotonic() + limit
        self._drain = drain
        self._answers: dict[int, Answer] = {}

    def run(self, packed: bytes) -> dict[int, Answer]:
        for member in self._waiting.values():
            with contextlib.suppress(OSError):  # it has died, which is noticed below
                member.control.settimeout(self._left())
                channel.send(member.control, {"path": [os.fspath(path) for path in sys.path]})
                channel.send_bytes(member.control, packed)
        with selectors.DefaultSelector() as selector:
            for member in self._waiting.values():
                selector.register(member.control, selectors.EVENT_READ, member)
                if member.process.pidfd is not None:
                    selector.register(member.process.pidfd, selectors.EVENT_READ, member)
            while self._waiting and self._left() != 0:
                for key, _ in selector.select(self._left()):
                    self._on_ready(key.data, selector)
        return self._answers

    def _left(self) -> float | None:
        return None if self._ends is None else max(0.0, self._ends - time.monotonic())

    def _on_ready(self, member: Member, selector: selectors.BaseSelector) -> None:
        if member.rank not in self._waiting:
            return
        answer = self._answer_of(member)
        del self._waiting[member.rank]
        selector.unregister(member.control)
        if member.process.pidfd is not None:
            selector.unregister(member.process.pidfd)
        if answer is not None:
            self._answers[member.rank] = answer
        if answer is None or isinstance(answer, Raised):
            soon = time.monotonic() + self._drain
            self._ends = soon if self._ends is None else min(self._ends, soon)

    def _answer_of(self, member: Member) -> Answer | None:
        """The answer, or None for a member that has died; its last answer still counts."""
        member.control.settimeout(self._left() if member.process.returncode() is None else 0.0)
        try:
            got = channel.receive_bytes(member.control)
        except OSError:
            got = None
        if got is None:
            member.process.wait(1.0)  # the channel of a dying process closes first
            return None
        answer: Answer = pickle.loads(got[0])
        return answer
