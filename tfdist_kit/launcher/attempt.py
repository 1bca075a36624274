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

from tfdist_kit.launcher import failure, ports
from tfdist_kit.launcher.failure import Failure
from tfdist_kit.launcher.network import Network
from tfdist_kit.launcher.outcome import Outcome, conclude
from tfdist_kit.launcher.output import Console, StreamLog, rank_prefix
from tfdist_kit.launcher.plan import RunPlan, WorkerPlan
from tfdist_kit.launcher.run_dir import RunDir
from tfdist_kit.launcher.spawn import WorkerProcess, spawn
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
from tfdist_kit.launcher.terminal import Terminal

HANDLED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_STREAM_FDS = {"stdout": 1, "stderr": 2}
_CHUNK = 1 << 20
_LAST_READS = 64
_LONGEST_WAIT = 3600.0
_JOIN_POLL = 0.2
_NO_PIDFD_POLL = 0.05
_FULL_CONSOLE_POLL = 0.02
_HURRIED_CONSOLE_WAIT = 1.0


class Attempt:
    """One attempt: every worker started once, and seen through to the end.

    Args:
        plan: What to start.
        folder: The run folder.
        environ: The environment that the workers inherit.
        network: Where their servers listen.
    """

    def __init__(
        self, plan: RunPlan, folder: RunDir, environ: Mapping[str, str], network: Network
    ) -> None:
        self._network = network
        self._plan = plan
        self._folder = folder
        self._environ = environ
        self._console = Console()
        self._terminal = Terminal()
        self._processes: list[WorkerProcess] = []
        self._reports: dict[int, bytes] = {}
        self._logs: dict[int, StreamLog] = {}
        self._paused = False
        self._next_look = 0.0
        self._selector = selectors.DefaultSelector()
        self._supervisor = Supervisor(plan.workers, plan.deadlines, time.monotonic())

    def run(self) -> Outcome:
        """Start the workers and see them through to the end."""
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
        for notice in self._plan.notices:
            self._say(notice)
        for worker in self._plan.workers:
            worker.folder.mkdir()
            process = spawn(self._plan, worker, self._environ, self._network.fds)
            self._processes.append(process)
            if worker.foreground:
                self._terminal.lend(process.process.pid)
            self._note(worker.rank, "started", pid=process.process.pid)
            self._watch(worker, process)
            self._step(wait=False)
            if self._supervisor.state is not State.RUNNING:
                break
        for worker in self._plan.workers[len(self._processes) :]:
            self._handle(NotStarted(worker.rank))

    def _watch(self, worker: WorkerPlan, process: WorkerProcess) -> None:
        for stream, fd in process.output_fds().items():
            os.set_blocking(fd, False)
            self._logs[fd] = self._open_log(worker, stream)
            self._selector.register(fd, selectors.EVENT_READ, self._on_output)
        self._reports[process.report_fd] = b""
        on_report = partial(self._on_report, worker.rank)
        self._selector.register(process.report_fd, selectors.EVENT_READ, on_report)
        if process.pidfd is not None:
            on_exit = partial(self._on_exit, process)
            self._selector.register(process.pidfd, selectors.EVENT_READ, on_exit)

    def _open_log(self, worker: WorkerPlan, stream: str) -> StreamLog:
        wish = self._plan.console
        shown = wish.tee and (wish.ranks is None or worker.rank in wish.ranks)
        fd = _STREAM_FDS[stream]
        prefix = rank_prefix(worker.rank, fd, plain=bool(self._environ.get("NO_COLOR")))
        path = worker.folder / f"{stream}.log"
        return StreamLog(path, self._console if shown else None, fd, prefix, wish.timestamps)

    # One turn of the loop

    def _step(self, *, wait: bool = True) -> None:
        self._pause_output(self._console.is_full)
        for key, _ in self._selector.select(self._timeout() if wait else 0):
            key.data(key.fd)
        self._look_who_listens()
        for process in self._processes:
            if process.pidfd is None:
                self._on_exit(process)
        self._handle(Tick())

    def _timeout(self) -> float:
        waits = [_LONGEST_WAIT]
        deadline = self._supervisor.next_deadline()
        if deadline is not None:
            waits.append(max(0.0, deadline - time.monotonic()))
        if self._supervisor.not_joined():
            waits.append(_JOIN_POLL)
        if self._paused:
            waits.append(_FULL_CONSOLE_POLL)
        if any(process.pidfd is None for process in self._processes):
            waits.append(_NO_PIDFD_POLL)
        return min(waits)

    def _pause_output(self, pause: bool) -> None:
        """Read no more output while the terminal is behind: the workers wait, we do not."""
        if pause == self._paused:
            return
        self._paused = pause
        for fd in self._logs:
            if pause:
                self._selector.unregister(fd)
            else:
                self._selector.register(fd, selectors.EVENT_READ, self._on_output)

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
                return process.process.pid
        return None

    # What happened

    def _on_output(self, fd: int) -> bool:
        """Take what can be read now; tells whether there was anything."""
        data = _read(fd)
        if data:
            try:
                self._logs[fd].feed(data)
            except OSError as error:
                self._say(f"some output cannot be kept in {self._plan.run_dir}: {error}")
        elif data is not None:
            self._logs.pop(fd).close()
            self._selector.unregister(fd)
        return bool(data)

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
        if self._plan.workers[process.rank].foreground:
            self._terminal.take_back()
        self._handle(Exited(process.rank, code))

    def _on_signals(self, fd: int) -> None:
        for signum in _read(fd) or b"":
            if signum in HANDLED_SIGNALS:
                self._handle(Signalled(signum))

    def _handle(self, message: Message) -> None:
        if not isinstance(message, Tick):
            self._note_message(message)
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
        lines = "".join(f"tfdist: {line}\n" for line in text.splitlines())
        self._console.write(_STREAM_FDS["stderr"], lines.encode("utf-8", "replace"))

    # The end

    def _end(self) -> None:
        """Leave no process and no open pipe behind, however the loop was left."""
        for process in self._processes:
            if not process.has_ended:
                process.send(signal.SIGKILL)
                process.process.wait()
        self._terminal.take_back()
        self._pause_output(False)
        for fd in list(self._logs):  # what is in the pipes is all there is: the writers are dead
            for _ in range(_LAST_READS):  # or have escaped, and may write for ever
                if not self._on_output(fd):
                    break
        for log in self._logs.values():
            log.close()
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
