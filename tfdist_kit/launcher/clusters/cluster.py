"""A local cluster for Python programs: functions run in its workers, results in rank order.

    LocalCluster -> plan -> pool (preloaded) or fresh -> Member per worker
    run(fn) -> calls.pack -> round: every member -> answers, deaths, deadline -> outcomes
            -> results or the root cause

No thread runs for it in the calling program. The workers' output goes straight to their log files.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from tfdist_kit._errors import ClusterError, UsageError
from tfdist_kit.launcher import temp
from tfdist_kit.launcher.check import check_size, check_start_method, check_variables
from tfdist_kit.launcher.clusters import calls, pool
from tfdist_kit.launcher.clusters.member import Member, start_member
from tfdist_kit.launcher.clusters.outcomes import CallOutcome, judge
from tfdist_kit.launcher.clusters.round import wait_for_answers
from tfdist_kit.launcher.hangs import stacks
from tfdist_kit.launcher.network.place import Network, network
from tfdist_kit.launcher.plan import RunPlan, make_plan
from tfdist_kit.launcher.request import RunRequest
from tfdist_kit.launcher.run_dir import RunDir
from tfdist_kit.launcher.start import memory
from tfdist_kit.launcher.start.spawn import FreshSpawner, Spawner
from tfdist_kit.launcher.start.start_method import StartMethod, Wish, gpu_device
from tfdist_kit.launcher.start.terminal import Terminal

_log = logging.getLogger(__name__)
PRELOAD = ("tensorflow",)


class LocalCluster:
    """Worker processes on this machine that do what they are told until the cluster is closed.

    Use it as a context manager. Each worker has a ``TF_CONFIG`` of its own; a strategy that one
    `run` makes is there for the next.

    Args:
        workers: How many tasks of type ``worker``.
        chief: Whether to add one task of type ``chief``.
        evaluator: Whether to add one task of type ``evaluator``.
        env: Variables to set for every worker.
        log_dir: The run folder; None chooses one under the system's temp folder.
        isolate: Whether to put the cluster into a network of its own, where that can be had.
        start_method: ``"preload"``, ``"fresh"``, or ``"auto"`` to preload unless there is a GPU.
        preload: What to import before the workers are forked.
        debug_rank: The rank that gets the terminal, so that it can be debugged; it starts in a
            fresh interpreter, and its output is not logged.
        timeout: How long a `run` may take, in seconds; None is for ever.
        drain: How long the others have when one worker has failed, in seconds; None is for ever.
        grace: How long the workers have to leave, in seconds.

    Attributes:
        run_dir: The run folder.

    Raises:
        UsageError: The cluster cannot be had as asked; nothing was started.
    """

    def __init__(
        self,
        workers: int = 2,
        *,
        chief: bool = False,
        evaluator: bool = False,
        env: Mapping[str, str] | None = None,
        log_dir: Path | str | None = None,
        isolate: bool = False,
        start_method: Wish = "auto",
        preload: Sequence[str] = PRELOAD,
        debug_rank: int | None = None,
        timeout: float | None = 300.0,
        drain: float | None = 5.0,
        grace: float = 5.0,
    ) -> None:
        self._request = RunRequest(
            target="",
            workers=workers,
            chief=chief,
            evaluator=evaluator,
            env=dict(env or {}),
            log_dir=Path(log_dir) if log_dir is not None else None,
            isolate=isolate,
            start_method=start_method,
            debug_rank=debug_rank,
        )
        check_size(self._request)
        check_variables(self._request)
        check_start_method(self._request)
        fresh = start_method == "fresh" or (start_method == "auto" and gpu_device() is not None)
        self._preload = () if fresh else tuple(preload)
        memory.check(self._request.size, preload=bool(self._preload), tensorflow=False)
        self._timeout, self._drain, self._grace = timeout, drain, grace
        self._members: list[Member] = []
        self._terminal = Terminal()
        self._open = contextlib.ExitStack()
        self._held = contextlib.ExitStack()
        self._attempt = -1
        self._owner = os.getpid()
        self._busy = threading.Lock()
        self._unusable = "it has not been started; use it in a with statement"

    # Life

    def __enter__(self) -> LocalCluster:
        with contextlib.ExitStack() as stack:
            self._folder = stack.enter_context(RunDir(self._request.log_dir))
            self.run_dir = self._folder.path
            self._scratch = stack.enter_context(temp.scratch())
            self._spawner = stack.enter_context(self._make_spawner())
            self._attempt = -1
            self._start()
            self._open = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the workers: well if they are idle, at once if they are not."""
        if os.getpid() != self._owner:
            return  # this is a fork of the program whose workers they are
        with self._open:
            self._stop()
        self._unusable = "it has been closed"

    def restart(self) -> None:
        """End the workers and start new ones, with new ports and without any state."""
        self._check_owner()
        if not self._members:
            raise ClusterError(f"the cluster cannot be restarted: {self._unusable}")
        self._stop()
        self._start()

    def _make_spawner(self) -> contextlib.AbstractContextManager[Spawner]:
        if not self._preload:
            return contextlib.nullcontext(FreshSpawner())
        return pool.shared(self._preload, {**os.environ, **self._request.env})

    def _start(self) -> None:
        self._attempt += 1
        wish = self._request
        place = self._held.enter_context(network(wish.size, isolate=wish.isolate))
        for notice in place.notices:
            _log.warning("%s", notice)
        try:
            plan = self._plan(place)
            self._folder.begin(self._attempt, plan.to_dict())
            for worker in plan.workers:
                self._members.append(start_member(plan, worker, self._spawner, place))
                if worker.foreground:
                    self._terminal.lend(self._members[-1].process.pid)
        except BaseException:
            self._unusable = "it could not be started"
            self._kill()
            raise
        if self._spawner.trouble:
            _log.warning("workers start in fresh interpreters: %s", self._spawner.trouble)
        self._unusable = ""

    def _plan(self, place: Network) -> RunPlan:
        plan = make_plan(
            self._request,
            network=place,
            run_dir=self.run_dir,
            scratch=self._scratch,
            environ=os.environ,
            start=StartMethod(preload=self._preload),
            attempt=self._attempt,
        )
        return dataclasses.replace(plan, kind="calls")

    def _stop(self) -> None:
        if not self._unusable:
            for member in self._members:
                member.leave()
            deadline = time.monotonic() + self._grace
            for member in self._members:
                member.process.wait(deadline - time.monotonic())
        self._kill()

    def _kill(self) -> None:
        for member in self._members:
            member.process.kill()
        for member in self._members:
            member.close()
        self._terminal.take_back()
        self._members = []
        self._held.close()

    @property
    def names(self) -> tuple[str, ...]:
        """How messages call the workers, in rank order."""
        return tuple(member.plan.name for member in self._members)

    @property
    def is_usable(self) -> bool:
        """Whether a `run` in all workers can be tried: each lives, and none is stuck."""
        if self._unusable or os.getpid() != self._owner:
            return False
        return not any(member.has_died for member in self._members)

    # Work

    def run(
        self,
        fn: Callable[..., Any],
        *args: Any,
        ranks: Iterable[int] | None = None,
        timeout: float | None = -1,
        **kwargs: Any,
    ) -> list[Any]:
        """Call ``fn(*args, **kwargs)`` in the workers, all at the same time.

        Args:
            fn: A function of a module that can be imported; with cloudpickle, any function.
            *args: Its arguments.
            ranks: In which workers; None is all of them.
            timeout: How long it may take, in seconds; None is for ever, without it the cluster's.
            **kwargs: Its keyword arguments.

        Returns:
            What it returned in each worker, in rank order.

        Raises:
            Exception: What it raised in the worker that failed first, not in consequence of
                another; its cause shows the worker's traceback. A `WorkerError` if its class is
                not known here.
            WorkerLostError: A worker's process has ended.
            ClusterTimeoutError: It did not return in time.
            UsageError: It cannot be sent to the workers.
        """
        outcome = self.run_each(fn, *args, ranks=ranks, timeout=timeout, **kwargs)
        error = outcome.error()
        if error is not None:
            raise error
        return [rank.value for rank in outcome.ranks]

    def run_each(
        self,
        fn: Callable[..., Any],
        *args: Any,
        ranks: Iterable[int] | None = None,
        timeout: float | None = -1,
        **kwargs: Any,
    ) -> CallOutcome:
        """Like `run`, but tell how it went in each worker instead of raising the root cause.

        Args:
            fn: See `run`.
            *args: See `run`.
            ranks: See `run`.
            timeout: See `run`.
            **kwargs: See `run`.

        Raises:
            UsageError: It cannot be sent to the workers.
            ClusterError: The cluster cannot be used.
        """
        with self._busy:  # two threads take turns
            members = self._members_of(ranks)
            packed = calls.pack(fn, args, kwargs)
            limit = self._timeout if timeout == -1 else timeout
            return self._call(members, packed, limit)

    def _call(self, members: Sequence[Member], packed: bytes, limit: float | None) -> CallOutcome:
        self._unusable = "a call of it was interrupted; restart() it"
        answers = wait_for_answers(members, packed, limit=limit, drain=self._drain)
        silent = [member for member in members if member.rank not in answers]
        self._unusable = "a worker of it died or hung; restart() it" if silent else ""
        told = _stacks(member for member in silent if not member.has_died)
        return judge(members, answers, told, limit=limit, logs=str(self.run_dir))

    def _members_of(self, ranks: Iterable[int] | None) -> list[Member]:
        self._check_owner()
        if self._unusable:
            raise ClusterError(f"the cluster cannot be used: {self._unusable}")
        if ranks is None:
            return [self._living(member.rank) for member in self._members]
        return [self._living(rank) for rank in ranks]

    def _check_owner(self) -> None:
        if os.getpid() != self._owner:
            raise ClusterError(
                "the cluster belongs to the process that made it, and this is a fork of that",
                hint="make a cluster of its own in the fork",
            )

    def _member(self, rank: int) -> Member:
        self._check_owner()
        if not self._members:
            raise ClusterError(f"the cluster cannot be used: {self._unusable}")
        if rank not in range(len(self._members)):
            raise UsageError(
                f"there is no rank {rank!r}", hint=f"the ranks are 0 to {len(self._members) - 1}"
            )
        return self._members[rank]

    def _living(self, rank: int) -> Member:
        member = self._member(rank)
        member.check_alive()
        return member

    def kill(self, rank: int) -> None:
        """End a worker with SIGKILL, and wait until it has ended."""
        self._member(rank).process.kill()

    def terminate(self, rank: int) -> None:
        """Send SIGTERM to a worker; TensorFlow may swallow it."""
        self._member(rank).process.send(signal.SIGTERM)

    def pid(self, rank: int) -> int:
        """The process id of a worker."""
        return self._member(rank).process.pid

    def log(self, rank: int, stream: Literal["stdout", "stderr"] = "stdout") -> Path:
        """Where a worker writes one of its streams; there is none for the debugged rank."""
        return self._member(rank).plan.folder / f"{stream}.log"

    def output(self, rank: int, stream: Literal["stdout", "stderr"] = "stdout") -> str:
        """What a worker has written since the last start, to one of its streams."""
        path = self.log(rank, stream)
        if not path.exists():  # the rank that has the terminal keeps none
            return ""
        return path.read_text(encoding="utf-8", errors="replace")


def _stacks(members: Iterable[Member]) -> Sequence[stacks.Answer]:
    """Where workers are that have not answered; their stacks are kept in their folders."""
    targets = [member.target for member in members]
    return stacks.collect(targets, "a call took too long", is_last=True) if targets else ()
