"""One attempt in flight: the loop between real processes and the supervisor that decides.

    pipes, pidfds, signals, time -> messages -> Supervisor -> actions -> signals, lines, events

One thread reads everything (a console thread only writes). Signal handlers only wake the loop.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from functools import partial

from tfdist_kit.launcher import failure, ports, status_lines
from tfdist_kit.launcher.board import Board
from tfdist_kit.launcher.console import Console
from tfdist_kit.launcher.failure import Failure
from tfdist_kit.launcher.outcome import Outcome, conclude
from tfdist_kit.launcher.plan import RunPlan, WorkerPlan
from tfdist_kit.launcher.run_dir import RunDir
from tfdist_kit.launcher.spawn import WorkerProcess, spawn
from tfdist_kit.launcher.streams import STREAM_FDS, Streams
from tfdist_kit.launcher.summary import summarise
from tfdist_kit.launcher.supervisor import (
    Exited,
    Kill,
    Listening,
    Message,
    NotStarted,
    Said,
    Signalled,
    State,
    Supervisor,
    Tell,
    Tick,
    Why,
)

HANDLED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_CHUNK = 1 << 16
_LONGEST_WAIT = 3600.0
_JOIN_POLL = 0.2
_NO_PIDFD_POLL = 0.05
_HURRIED_CONSOLE_WAIT = 1.0


class Attempt:
    """One attempt: every worker started once, and seen through to the end.

    Args:
        plan: What to start.
        folder: The run folder.
        environ: The environment that the workers inherit.
    """

    def __init__(self, plan: RunPlan, folder: RunDir, environ: Mapping[str, str]) -> None:
        self._plan = plan
        self._folder = folder
        self._environ = environ
        self._board = Board()
        self._board.begin([worker.task for worker in plan.workers])
        wish, stderr = plan.console, STREAM_FDS["stderr"]
        self._console = Console(
            status_lines.live_view(self._board, stderr, environ) if wish.live else None
        )
        self._streams = Streams(
            wish, len(plan.workers), self._console, environ, self._board.heard, self._on_trouble
        )
        self._reads_output = False
        self._processes: list[WorkerProcess] = []
        self._reports: dict[int, bytes] = {}
        self._next_look = 0.0
        self._selector = selectors.DefaultSelector()
        self._supervisor = Supervisor(plan.workers, plan.deadlines, time.monotonic())

    def run(self) -> Outcome:
        """Start the workers and see them through to the end."""
        try:
            return self._run()
        except BaseException:
            self._console.close(_HURRIED_CONSOLE_WAIT)
            raise

    def _run(self) -> Outcome:
        with _signals_as_bytes() as signals:
            self._selector.register(signals, selectors.EVENT_READ, self._on_signals)
            try:
                self._start()
                while self._supervisor.state is not State.OVER:
                    self._step()
            finally:
                self._end()
        return self._sum_up()  # no worker is left; a signal may end us as it ends any program

    # Starting

    def _start(self) -> None:
        for worker in self._plan.workers:
            worker.folder.mkdir()
            process = spawn(self._plan, worker, self._environ)
            self._processes.append(process)
            self._note(worker.rank, "started", pid=process.process.pid)
            self._board.started(worker.rank, process.process.pid)
            self._watch(worker, process)
            self._step(wait=False)
            if self._supervisor.state is not State.RUNNING:
                break
        for worker in self._plan.workers[len(self._processes) :]:
            self._handle(NotStarted(worker.rank))

    def _watch(self, worker: WorkerPlan, process: WorkerProcess) -> None:
        for stream, fd in process.output_fds().items():
            self._streams.add(worker, stream, fd)
        self._reports[process.report_fd] = b""
        on_report = partial(self._on_report, worker.rank)
        self._selector.register(process.report_fd, selectors.EVENT_READ, on_report)
        if process.pidfd is not None:
            on_exit = partial(self._on_exit, process)
            self._selector.register(process.pidfd, selectors.EVENT_READ, on_exit)

    # One turn of the loop

    def _step(self, *, wait: bool = True) -> None:
        self._heed_output(time.monotonic() >= self._streams.next_read(time.monotonic()))
        for key, _ in self._selector.select(self._timeout() if wait else 0):
            key.data(key.fd)
        self._streams.show_due()
        self._look_who_listens()
        for process in self._processes:
            if process.pidfd is None:
                self._on_exit(process)
        self._handle(Tick())

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
        if any(process.pidfd is None for process in self._processes):
            waits.append(_NO_PIDFD_POLL)
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
        for port in (ports.listening(ranks) if ranks else None) or ():
            self._handle(Listening(ranks[port]))

    # What happened

    def _on_output(self, _: int) -> None:
        self._streams.read()

    def _on_trouble(self, error: OSError) -> None:
        self._say(f"some output cannot be kept in {self._plan.run_dir}: {error}")

    def _on_report(self, rank: int, fd: int) -> None:
        data = _read(fd)
        if data == b"":
            self._selector.unregister(fd)
        elif data:
            *words, self._reports[fd] = (self._reports[fd] + data).split(b"\n")
            for word in words:
                self._handle(Said(rank, word.decode()))

    def _on_exit(self, process: WorkerProcess, pidfd: int | None = None) -> None:
        if process.has_ended or (code := process.returncode()) is None:
            return
        if process.report_fd in self._selector.get_map():
            self._on_report(process.rank, process.report_fd)  # its last words come first
        if pidfd is not None:
            self._selector.unregister(pidfd)
        self._handle(Exited(process.rank, code))

    def _on_signals(self, fd: int) -> None:
        for signum in _read(fd) or b"":
            if signum in HANDLED_SIGNALS:
                self._handle(Signalled(signum))

    def _handle(self, message: Message) -> None:
        if not isinstance(message, Tick):
            self._note_message(message)
            self._board.note(message)
        for action in self._supervisor.handle(message, time.monotonic()):
            match action:
                case Kill(rank, signum):
                    self._kill(rank, signum)
                case Tell(text):
                    self._say(text)

    def _kill(self, rank: int, signum: int) -> None:
        if rank < len(self._processes):  # the others have not been started yet, and will not be
            self._folder.event("signal", rank=rank, signum=signum)
            self._processes[rank].send(signum)

    # What is written down

    def _note_message(self, message: Message) -> None:
        match message:
            case Said(rank, phase):
                self._note(rank, phase)
            case Listening(rank):
                self._note(rank, "listening")
            case Exited(rank, returncode):
                self._note(rank, "exited", returncode=returncode)
            case NotStarted(rank):
                self._folder.event("not_started", rank=rank)
            case Signalled(signum):
                self._folder.event("received", signum=signum)

    def _note(self, rank: int, state: str, **fields: int) -> None:
        self._folder.event(state, rank=rank, **fields)
        status = {"rank": rank, "task": self._plan.workers[rank].task, "state": state, **fields}
        self._folder.write_status(self._plan.workers[rank].folder, status)

    def _say(self, text: str) -> None:
        self._streams.show_all()
        self._console.say(text)

    # The end

    def _end(self) -> None:
        """Leave no process and no open pipe behind, however the loop was left."""
        for process in self._processes:
            if not process.has_ended:
                process.send(signal.SIGKILL)
                process.process.wait()
        self._heed_output(False)
        self._streams.finish()
        for process in self._processes:
            process.close()
        self._selector.close()

    def _sum_up(self) -> Outcome:
        failures: dict[int, Failure] = {}
        for worker in self._plan.workers:
            failed = failure.read(worker.folder / "error.json")
            if failed is not None:
                failures[worker.rank] = failed
        outcome = conclude(self._supervisor, failures, time.monotonic())
        self._folder.event("over", exit_code=outcome.exit_code, root=outcome.root)
        if self._folder.trouble is not None:
            self._say(f"the run folder is not complete: {self._folder.trouble}")
        if self._console.trouble is not None:
            self._say(f"some output could not be shown: {self._console.trouble}")
        self._say(summarise(self._plan, self._supervisor, failures, outcome))
        in_a_hurry = outcome.cause is not None and outcome.cause.why in (Why.SIGNAL, Why.TIME_LIMIT)
        self._console.close(_HURRIED_CONSOLE_WAIT if in_a_hurry else None)
        return outcome


def _read(fd: int) -> bytes | None:
    """What can be read now: None for nothing, empty at the end of the stream."""
    try:
        return os.read(fd, _CHUNK)
    except BlockingIOError:
        return None


@contextlib.contextmanager
def _signals_as_bytes() -> Iterator[int]:
    """Turn `HANDLED_SIGNALS` into bytes on a descriptor; one that is ignored stays ignored."""
    reader, writer = socket.socketpair()
    reader.setblocking(False)
    writer.setblocking(False)
    heeded = [name for name in HANDLED_SIGNALS if signal.getsignal(name) != signal.SIG_IGN]
    before = {name: signal.signal(name, lambda *_: None) for name in heeded}
    wakeup = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    try:
        yield reader.fileno()
    finally:
        signal.set_wakeup_fd(wakeup)
        for name, handler in before.items():
            signal.signal(name, handler)
        reader.close()
        writer.close()
