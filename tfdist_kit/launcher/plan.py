"""From a wish to a plan: everything about a run that can be known before a process starts.

    RunRequest (what was asked for) -> make_plan -> RunPlan (what will be done) -> launch

A plan is plain, frozen data: ``--dry-run`` prints it, the run folder keeps it as ``plan.json``.
Checking a request reads the file system; nothing here writes to it or starts anything.
"""

from __future__ import annotations

import importlib.util
import math
import os
import resource
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tfdist_kit import _proxies
from tfdist_kit._errors import UsageError
from tfdist_kit.launcher.start_method import StartMethod, Wish
from tfdist_kit.tf_config import ClusterSpec, Task, TFConfig

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
DESCRIPTORS_PER_WORKER = 8
OWN_DESCRIPTORS = 32
OWN_VARIABLES = ("TF_CONFIG", "TFDIST_RANK", "TFDIST_RUN_DIR", "TFDIST_ATTEMPT")


@dataclass(frozen=True)
class Deadlines:
    """How long each phase of a run may take, in seconds; None is for ever.

    Attributes:
        total: The whole run.
        start: From the first worker that joins the cluster to the last.
        drain: For the peers of a failed worker to end by themselves.
        grace: Between SIGTERM and SIGKILL.
        evaluator: For an evaluator to end after the last training worker.
        stall: How long a worker may give no sign of life.
    """

    total: float | None = None
    start: float | None = 60.0
    drain: float = 5.0
    grace: float = 5.0
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

    @property
    def size(self) -> int:
        """Number of processes."""
        return self.workers + self.chief + self.evaluator


@dataclass(frozen=True)
class WorkerPlan:
    """One worker process.

    Attributes:
        rank: Position among all processes: chief, workers, evaluator.
        task: ``type:index`` in the cluster.
        port: The port that TensorFlow's server will use.
        env: Variables set on top of the launcher's own environment.
        folder: Where its output, error and status files go.
    """

    rank: int
    task: str
    port: int
    env: Mapping[str, str]
    folder: Path

    @property
    def name(self) -> str:
        """How messages call this worker."""
        return f"rank {self.rank} ({self.task})"

    @property
    def joins(self) -> bool:
        """Whether it takes part in the cluster's collectives."""
        return not self.task.startswith("evaluator:")


@dataclass(frozen=True)
class RunPlan:
    """One attempt at a run, ready to be started.

    Attributes:
        python: The interpreter.
        kind: ``script`` or ``module``.
        target: The script's path or the module's name.
        args: The target's own arguments.
        run_dir: The run folder.
        workers: One plan per process, in rank order.
        start: How they are started.
        fast_exit: Whether they leave without the interpreter's own teardown.
        attempt: How many attempts at the run came before.
    """

    python: str
    kind: str
    target: str
    args: tuple[str, ...]
    run_dir: Path
    workers: tuple[WorkerPlan, ...]
    deadlines: Deadlines
    console: ConsoleWish
    start: StartMethod = field(default_factory=StartMethod)
    fast_exit: bool = True
    restarts: RestartWish = RestartWish()
    attempt: int = 0

    @property
    def folder(self) -> Path:
        """Where the workers' folders of this attempt lie."""
        return self.run_dir / f"attempt_{self.attempt}"

    @property
    def common_env(self) -> dict[str, str]:
        """The variables that are set alike for every worker."""
        first, *others = (worker.env for worker in self.workers)
        return {
            name: value
            for name, value in first.items()
            if name not in OWN_VARIABLES and all(env.get(name) == value for env in others)
        }

    def orders(self, worker: WorkerPlan) -> dict[str, Any]:
        """What a worker is told beyond its environment (see `worker.Orders`)."""
        return {
            "folder": str(worker.folder),
            "kind": self.kind,
            "target": self.target,
            "fast_exit": self.fast_exit,
        }

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON-ready data."""
        data = asdict(self)
        data["run_dir"] = str(self.run_dir)
        for worker in data["workers"]:
            worker["folder"] = str(worker["folder"])
        return data


def make_plan(
    request: RunRequest,
    *,
    ports: Sequence[int],
    run_dir: Path,
    scratch: Path | None,
    environ: Mapping[str, str],
    start: StartMethod,
    attempt: int = 0,
) -> RunPlan:
    """Turn a checked request into a plan.

    Args:
        request: What was asked for.
        ports: One free port per process, in rank order.
        run_dir: The run folder.
        scratch: Where the workers' temp files go; None leaves it to them.
        environ: The environment that the workers inherit.
        start: How the workers are to be started.
        attempt: How many attempts came before.
    """
    cluster = ClusterSpec.local(
        workers=request.workers,
        chief=request.chief,
        evaluator=request.evaluator,
        ports=list(ports),
    )
    config = TFConfig(cluster=cluster)
    given = {**environ, **request.env}
    temp_files = {} if scratch is None else {"TMPDIR": str(scratch)}
    shared = {
        **temp_files,
        **request.env,
        **_proxies.bypass(given, LOOPBACK_NAMES),
        "TFDIST_RUN_DIR": str(run_dir),
        "TFDIST_ATTEMPT": str(attempt),
    }
    return RunPlan(
        python=sys.executable,
        kind="module" if request.is_module else "script",
        target=request.target,
        args=request.args,
        run_dir=run_dir,
        workers=tuple(
            _plan_worker(rank, task, port, config, run_dir / f"attempt_{attempt}", shared)
            for rank, (task, port) in enumerate(zip(cluster.tasks, ports, strict=True))
        ),
        deadlines=request.deadlines,
        console=request.console,
        start=start,
        fast_exit=request.fast_exit,
        restarts=request.restarts,
        attempt=attempt,
    )


def _plan_worker(
    rank: int, task: Task, port: int, config: TFConfig, folder: Path, shared: Mapping[str, str]
) -> WorkerPlan:
    own = {"TF_CONFIG": config.for_task(task).to_json(), "TFDIST_RANK": str(rank)}
    return WorkerPlan(rank, str(task), port, {**shared, **own}, folder / f"rank_{rank}")


def check(request: RunRequest) -> None:
    """Refuse a request that cannot be carried out.

    Raises:
        UsageError: Something that was asked for cannot be done; says what and why.
    """
    _check_working_directory()
    check_size(request)
    _check_target(request)
    _check_numbers(request)
    _check_restarts(request.restarts)
    for name in OWN_VARIABLES:
        if name in request.env:
            raise UsageError(
                f"the variable {name} was given, but each worker needs its own value of it",
                hint=f"leave {name} out: tfdist sets it for every worker",
            )


def _check_working_directory() -> None:
    try:
        os.getcwd()
    except OSError as error:
        raise UsageError(
            f"the working directory cannot be used: {error}", hint="cd to a folder that exists"
        ) from error


def check_size(request: RunRequest) -> None:
    """Refuse a number of workers that cannot be had.

    Raises:
        UsageError: Says why.
    """
    if request.workers < 1:
        raise UsageError(
            f"the number of workers is {request.workers}",
            hint="give at least one worker, for example -n 2",
        )
    needed = OWN_DESCRIPTORS + DESCRIPTORS_PER_WORKER * request.size
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if needed > allowed != resource.RLIM_INFINITY:
        raise UsageError(
            f"{request.size} workers need some {needed} file descriptors in the launcher, and "
            f"{allowed} are allowed",
            hint=f"start fewer workers, or allow more: ulimit -n {needed}",
        )
    for rank in request.console.ranks or ():
        if not 0 <= rank < request.size:
            raise UsageError(
                f"rank {rank} is in the rank filter, but the ranks are 0 to {request.size - 1}",
                hint="ranks count the chief first, then the workers, then the evaluator",
            )


def _check_target(request: RunRequest) -> None:
    if request.is_module:
        _check_module(request.target)
        return
    path = Path(request.target)
    if path.is_dir():
        raise UsageError(
            f"{request.target} is a directory, not a script",
            hint="name the script in it, or run a package with -m",
        )
    if not path.exists():
        raise UsageError(
            f"the script {request.target} does not exist (looked in {Path.cwd()})",
            hint=_hint_for_a_missing_script(path.name),
        )
    if not os.access(path, os.R_OK):
        raise UsageError(
            f"the script {request.target} cannot be read", hint=f"chmod +r {request.target}"
        )


def _hint_for_a_missing_script(name: str) -> str:
    if name.startswith("python"):
        return "leave the interpreter out: tfdist run SCRIPT starts it itself"
    return "check the path, or use -m for a module"


def _check_module(name: str) -> None:
    top = name.partition(".")[0]
    try:
        found = top in sys.modules or importlib.util.find_spec(top) is not None
    except (ValueError, ImportError):
        found = False
    if not (found or Path(top).is_dir() or Path(f"{top}.py").exists()):
        raise UsageError(
            f"no module named {name!r} can be found",
            hint=f"install it, or run from the folder that holds {top}",
        )


def _check_numbers(request: RunRequest) -> None:
    for name, value in asdict(request.deadlines).items():
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise UsageError(
                f"the {name} deadline is {value}",
                hint="give a number of seconds that is not negative",
            )


def _check_restarts(wish: RestartWish) -> None:
    if wish.limit < 0:
        raise UsageError(f"the number of restarts is {wish.limit}", hint="give 0 for none")
    if not (math.isfinite(wish.delay) and wish.delay >= 0):
        raise UsageError(
            f"the delay before a restart is {wish.delay}",
            hint="give a number of seconds that is not negative",
        )
