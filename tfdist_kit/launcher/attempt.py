"""One attempt in flight: the loop between real processes and the supervisor that decides.

    pipes, pidfds, signals, time -> messages -> Supervisor -> actions -> signals, lines, events

One thread reads everything (a console thread only writes). Signal handlers only wake the loop.
"""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from tfdist_kit.launcher import failure, signals
from tfdist_kit.launcher.failure import Failure
from tfdist_kit.launcher.hangs import proc, stacks
from tfdist_kit.launcher.messages import (
    Alive,
    Dump,
    Dumped,
    Exited,
    Explain,
    Kill,
    Listening,
    Message,
    NotStarted,
    Paused,
    Progress,
    Release,
    Said,
    Signalled,
    Tell,
    Tick,
)
from tfdist_kit.launcher.network import ports
from tfdist_kit.launcher.network.place import Network
from tfdist_kit.launcher.outcome import Outcome, conclude
from tfdist_kit.launcher.output.board import Board
from tfdist_kit.launcher.output.console import Console
from tfdist_kit.launcher.output.streams import STREAM_FDS, Streams
from tfdist_kit.launcher.plan import RunPlan, WorkerPlan
from tfdist_kit.launcher.records import Records
from tfdist_kit.launcher.run_dir import RunDir, usable
from tfdist_kit.launcher.start.spawn import (
    NO_PIDFD_POLL,
    Birth,
    FreshSpawner,
    Spawner,
    WorkerProcess,
)
from tfdist_kit.launcher.start.terminal import Terminal
from tfdist_kit.launcher.state import State
from tfdist_kit.launcher.supervisor import Supervisor

_CHUNK = 1 << 16
_LONGEST_WAIT = 1.0
"""So that it is noticed soon when the launcher itself was stopped, in seconds."""
_LONGEST_TURN = 1.0
"""If more than that goes by between two looks at the clock, this process was stopped."""
_JOIN_POLL = 0.2
_ALIVE_INTERVAL = 0.1


@dataclass(frozen=True)
class Finished:
    """An attempt that is over: everything that it is judged and told by."""

    plan: RunPlan
    supervisor: Supervisor
    failures: Mapping[int, Failure]
    outcome: Outcome
    places: tuple[str, ...] = ()


@dataclass(frozen=True)
class Surroundings:
    """What lives as long as the run, over all its attempts.

    Attributes:
        folder: The run folder.
        environ: The environment that the workers inherit.
        console: Where the workers' output and our own lines go.
        board: What the status lines tell.
        caught: Where the launcher's signals are read (see `signals.as_bytes`).
        began: When the first attempt was started.
    """

    folder: RunDir
    environ: Mapping[str, str]
    console: Console
    board: Board
    caught: int
    began: float


class Attempt:
    """One attempt: every worker started once, and seen through to the end.

    Args:
        plan: What to start.
        around: What lives as long as the run.
        network: Where their servers listen.
        spawner: What brings them to life.
    """

    def __init__(
        self, plan: RunPlan, around: Surroundings, network: Network, spawner: Spawner
    ) -> None:
        self._plan = plan
        self._spawner = spawner
        self._records = Records(plan, around.folder)
        self._environ = around.environ
        self._console = around.console
        self._caught = around.caught
        self._network = network
        self._terminal = Terminal()
        self._board = around.board
        self._board.begin([worker.task for worker in plan.workers])
        self._streams = Streams(
            plan.console,
            len(plan.workers),
            self._console,
            self._environ,
            self._on_life,
            self._on_trouble,
        )
        self._reads_output = False
        self._processes: list[WorkerProcess] = []
        self._reports: dict[int, bytes] = {}
        self._said: set[str] = set()
        self._next_look = 0.0
        self._looked_at = time.monotonic()
        self._alive_at: dict[int, float] = {}
        self._collection: stacks.Collection | None = None
        self._places: tuple[str, ...] = ()
        self._selector = selectors.DefaultSelector()
        now = time.monotonic()
        self._supervisor = Supervisor(plan.workers, plan.deadlines, now, around.began)

    def run(self) -> Finished:
        """Start the workers and see them through to the end."""
        self._selector.register(self._caught, selectors.EVENT_READ, self._on_signals)
        try:
            self._start()
            while self._supervisor.state is not State.OVER:
                self._step()
        finally:
            self._end()
        return self._sum_up()

    # Starting

    def _await_spawner(self) -> None:
        if not self._spawner.is_ready():
            self._selector.register(self._spawner, selectors.EVENT_READ, lambda _: None)
            while not self._spawner.is_ready() and self._supervisor.state is State.RUNNING:
                self._step()
            self._selector.unregister(self._spawner)
        if self._spawner.trouble:
            self._say_once(f"workers start in fresh interpreters: {self._spawner.trouble}")

    def _start(self) -> None:
        self._await_spawner()
        for notice in self._plan.notices if not self._plan.attempt else ():
            self._say(notice)
        for worker in self._plan.workers:
            if self._supervisor.state is not State.RUNNING:
                break
            with usable(self._plan.run_dir):
                worker.folder.mkdir()
            spawner = FreshSpawner() if worker.foreground else self._spawner
            process = spawner.spawn(self._birth(worker))
            self._processes.append(process)
            if worker.foreground:
                self._terminal.lend(process.pid)
            started = proc.start_time(process.pid)
            self._records.state(worker.rank, "started", pid=process.pid, start_time=started)
            self._board.started(worker.rank, process.pid)
            self._watch(worker, process)
            self._step(wait=False)
        for worker in self._plan.workers[len(self._processes) :]:
            self._handle(NotStarted(worker.rank))

    def _birth(self, worker: WorkerPlan) -> Birth:
        argv = (self._plan.target, *self._plan.args)
        env = {**self._environ, **worker.env}
        given = dict(STREAM_FDS) if worker.foreground else {}
        given |= self._network.fds
        orders = self._plan.orders(worker)
        return Birth(worker.rank, worker.name, argv, env, orders, given, worker.foreground)

    def _watch(self, worker: WorkerPlan, process: WorkerProcess) -> None:
        for stream in STREAM_FDS.keys() & process.fds.keys():
            with usable(self._plan.run_dir):
                self._streams.add(worker, stream, process.fds[stream])
        report_fd = process.fds["report"]
        self._reports[report_fd] = b""
        on_report = partial(self._on_report, worker.rank)
        self._selector.register(report_fd, selectors.EVENT_READ, on_report)
        if process.pidfd is not None:
            on_exit = partial(self._on_exit, process)
            self._selector.register(process.pidfd, selectors.EVENT_READ, on_exit)

    # One turn of the loop

    def _step(self, *, wait: bool = True) -> None:
        self._heed_output(time.monotonic() >= self._streams.next_read(time.monotonic()))
        if self._console.is_full:  # it is we who keep them from being heard
            for worker in self._plan.workers:
                self._note_life(worker.rank)
        timeout = self._timeout() if wait else 0.0
        ready = self._selector.select(timeout)
        self._look_at_the_clock(timeout)
        for key, _ in ready:
            key.data(key.fd)
        self._streams.show_due()
        self._look_who_listens()
        self._look_for_stacks()
        for process in self._processes:
            if process.pidfd is None:
                self._on_exit(process)
        self._handle(Tick())

    def _look_at_the_clock(self, waited: float = 0.0) -> float:
        """The time; that this process did not run up to then is told before anything is judged."""
        now = time.monotonic()
        took, self._looked_at = now - self._looked_at, now
        if took > waited + _LONGEST_TURN:
            self._act(Paused(took), now)
        return now

    def _timeout(self) -> float:
        waits = [_LONGEST_WAIT]
        deadline = self._supervisor.next_deadline()
        now = time.monotonic()
        dues = [deadline, self._streams.next_deadline()]
        if not self._reads_output:
            dues.append(self._streams.next_read(now))
        waits += [max(0.0, due - now) for due in dues if due is not None]
        if self._supervisor.not_joined():
            waits.append(_JOIN_POLL)
        if self._collection is not None:
            waits.append(stacks.POLL)
        if any(process.pidfd is None for process in self._processes):
            waits.append(NO_PIDFD_POLL)
        return min(waits)

    def _heed_output(self, heed: bool) -> None:
        """Read output, or let it gather in the pipes; while a terminal is behind, workers wait."""
        if heed == self._reads_output:
            return
        self._reads_output = heed
        if heed:
            self._selector.register(self._streams, selectors.EVENT_READ, self._on_output)
        else:
            self._selector.unregister(self._streams)

    def _look_who_listens(self) -> None:
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + _JOIN_POLL
        ranks = {self._plan.workers[rank].port: rank for rank in self._supervisor.not_joined()}
        inside = self._somebody_inside() if self._plan.isolated else "self"
        for port in (ports.listening(ranks, inside) if ranks and inside else None) or ():
            self._handle(Listening(ranks[port]))

    def _somebody_inside(self) -> int | None:
        """A process in the workers' own network; a worker is there when its script begins."""
        for worker, process in zip(self._supervisor.workers, self._processes, strict=False):
            if worker.running and worker.alive:
                return process.pid
        return None

    # What happened

    def _on_output(self, _: int) -> None:
        self._streams.read()

    def _on_life(self, rank: int, now: float) -> None:
        self._board.heard(rank, now)
        self._note_life(rank)

    def _on_trouble(self, error: OSError) -> None:
        self._say(f"some output cannot be kept in {self._plan.run_dir}: {error}")

    def _note_life(self, rank: int) -> None:
        now = time.monotonic()
        if now - self._alive_at.get(rank, 0.0) >= _ALIVE_INTERVAL:
            self._alive_at[rank] = now
            self._handle(Alive(rank))

    def _on_report(self, rank: int, fd: int) -> None:
        data = _read(fd)
        if data == b"":
            self._selector.unregister(fd)
        elif data:
            *lines, self._reports[fd] = (self._reports[fd] + data).split(b"\n")
            for line in lines:
                self._on_line(rank, line.decode("utf-8", "replace"))

    def _on_line(self, rank: int, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "afresh":
            self._records.state(rank, "afresh", reason=rest)
            self._say_once(f"workers begin again in interpreters of their own: {rest}")
        elif word in ("alive", "step"):
            self._handle(Progress(rank, int(rest) if rest else None))
        else:
            self._handle(Said(rank, word))

    def _on_exit(self, process: WorkerProcess, pidfd: int | None = None) -> None:
        if process.has_ended or (code := process.returncode()) is None:
            return
        if self._spawner.trouble:
            self._say_once(self._spawner.trouble)
        report_fd = process.fds["report"]
        if report_fd in self._selector.get_map():
            self._on_report(process.rank, report_fd)  # its last words come first
        if pidfd is not None:
            self._selector.unregister(pidfd)
        if self._plan.workers[process.rank].foreground:
            self._terminal.take_back()
        self._handle(Exited(process.rank, code))

    def _on_signals(self, fd: int) -> None:
        for signum in signals.received(fd):
            self._handle(Signalled(signum))

    def _handle(self, message: Message) -> None:
        if not isinstance(message, Tick):
            self._records.note(message)
            self._board.note(message)
        self._act(message, self._look_at_the_clock())

    def _act(self, message: Message, now: float) -> None:
        for action in self._supervisor.handle(message, now):
            match action:
                case Kill(rank, signum):
                    self._kill(rank, signum)
                case Release(rank):
                    self._processes[rank].release()
                case Tell(text):
                    self._say(text)
                case Dump(reason, is_last):
                    self._collection = stacks.Collection(self._targets(), reason, is_last=is_last)
                case Explain(aloud):
                    self._explain(aloud)

    def _kill(self, rank: int, signum: int) -> None:
        if rank < len(self._processes):  # the others have not been started yet, and will not be
            self._records.signal(rank, signum)
            self._processes[rank].send(signum)

    # Where the workers are

    def _targets(self) -> list[stacks.Target]:
        return [
            stacks.target_of(worker.folder, self._records.status[worker.rank])
            for worker in self._plan.workers
            if worker.rank in self._records.status
        ]

    def _look_for_stacks(self) -> None:
        if self._collection is not None and self._collection.is_complete():
            self._handle(Dumped())

    def _explain(self, aloud: bool) -> None:
        if self._collection is None:
            return
        places = stacks.explained(self._collection.answers())
        self._collection = None
        if aloud:
            self._say("\n".join(places))
        else:
            self._places = places

    # What is said

    def _say(self, text: str) -> None:
        self._streams.show_all()
        self._console.say(text)

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._say(text)

    # The end

    def _end(self) -> None:
        """Leave no process and no open pipe behind, however the loop was left."""
        for process in self._processes:
            process.kill()
        self._terminal.take_back()
        self._heed_output(False)
        self._streams.finish()
        for process in self._processes:
            process.close()
            stacks.tidy(self._plan.workers[process.rank].folder)
        self._explain(aloud=False)  # the workers may have ended before it was time to
        self._selector.close()

    def _sum_up(self) -> Finished:
        failures: dict[int, Failure] = {}
        for worker in self._plan.workers:
            failed = failure.read(worker.folder / "error.json")
            if failed is not None:
                failures[worker.rank] = failed
        outcome = conclude(self._supervisor, failures, time.monotonic())
        return Finished(self._plan, self._supervisor, failures, outcome, self._places)


def _read(fd: int) -> bytes | None:
    """What can be read now: None for nothing, empty at the end of the stream."""
    try:
        return os.read(fd, _CHUNK)
    except BlockingIOError:
        return None
