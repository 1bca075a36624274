"""What a user can ask a run for, as plain data; `check` refuses what cannot be done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tfdist_kit.launcher.start.start_method import Wish


@dataclass(frozen=True)
class Deadlines:
    """How long each phase of a run may take, in seconds; None is for ever.

    Attributes:
        total: The whole run.
        start: From the first worker that joins the cluster to the last.
        drain: For the peers of a failed worker to end by themselves.
        grace: Between SIGTERM and SIGKILL.
        save: For a worker that was given notice to save; nobody is ended meanwhile.
        evaluator: For an evaluator to end after the last training worker.
        stall: How long a worker may give no sign of life.
    """

    total: float | None = None
    start: float | None = 60.0
    drain: float = 5.0
    grace: float = 5.0
    save: float = 600.0
    evaluator: float | None = 60.0
    stall: float | None = None


@dataclass(frozen=True)
class RestartWish:
    """How often, and how soon, all workers are started again after an attempt that failed.

    Attributes:
        limit: How many restarts after crashes; 0 for no restart at all, whatever the reason.
        delay: Seconds before the first restart; each further one without progress doubles it.
    """

    limit: int = 0
    delay: float = 1.0


@dataclass(frozen=True)
class ConsoleWish:
    """What of the workers' output the terminal shows; the files always get all of it.

    Attributes:
        tee: Whether to show it at all.
        ranks: The ranks to show, or None for all.
        timestamps: Whether each line starts with the time at which it was read.
        collapse: Whether lines that are the same are shown once, with a count.
        quiet_tf: Whether TensorFlow's start-up notes are left out.
        live: Whether a terminal shows a status line per rank below the log.
    """

    tee: bool = True
    ranks: tuple[int, ...] | None = None
    timestamps: bool = False
    collapse: bool = False
    quiet_tf: bool = False
    live: bool = True


@dataclass(frozen=True)
class RunRequest:
    """What the user asks for.

    Attributes:
        target: A script's path, or a module's name.
        args: The target's own arguments.
        is_module: Whether `target` is a module, as for ``python -m``.
        workers: How many tasks of type ``worker``.
        chief: Whether to add one task of type ``chief``.
        evaluator: Whether to add one task of type ``evaluator``.
        env: Variables to set for every worker.
        log_dir: The run folder; None chooses one under the system's temp folder.
        start_method: Whether workers are forked from a process that has imported TensorFlow.
        fast_exit: Whether the workers leave without the interpreter's own teardown.
        isolate: Whether to put the cluster into a network of its own, where that can be had.
        debug_rank: The rank that is given the terminal, so that it can be debugged; no deadline
            counts while it lives.
        gpus_per_worker: How many GPUs each process may see; None changes nothing.
    """

    target: str
    args: tuple[str, ...] = ()
    is_module: bool = False
    workers: int = 2
    chief: bool = False
    evaluator: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    log_dir: Path | None = None
    start_method: Wish = "auto"
    fast_exit: bool = True
    deadlines: Deadlines = Deadlines()
    console: ConsoleWish = ConsoleWish()
    restarts: RestartWish = RestartWish()
    isolate: bool = False
    debug_rank: int | None = None
    gpus_per_worker: int | None = None

    @property
    def size(self) -> int:
        """Number of processes."""
        return self.workers + self.chief + self.evaluator
