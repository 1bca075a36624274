"""From a request to a plan: everything about a run that can be known before a process starts.

    RunRequest (what was asked for) -> make_plan -> RunPlan (what will be done) -> launch

A plan is plain, frozen data: ``--dry-run`` prints it, the run folder keeps it as ``plan.json``.
Nothing here writes to the file system or starts anything.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tfdist_kit import _proxies
from tfdist_kit.launcher.network.place import Network
from tfdist_kit.launcher.request import ConsoleWish, Deadlines, RestartWish, RunRequest
from tfdist_kit.launcher.start import gpus
from tfdist_kit.launcher.start.start_method import StartMethod
from tfdist_kit.tf_config import ClusterSpec, Task, TFConfig

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
OWN_VARIABLES = (
    *("TF_CONFIG", "TFDIST_RANK", "TFDIST_RUN_DIR", "TFDIST_ATTEMPT", "TFDIST_DEBUG_RANK"),
)


@dataclass(frozen=True)
class WorkerPlan:
    """One worker process.

    Attributes:
        rank: Position among all processes: chief, workers, evaluator.
        task: ``type:index`` in the cluster.
        port: The port that TensorFlow's server will use.
        env: Variables set on top of the launcher's own environment.
        folder: Where its output, error and status files go.
        foreground: Whether it has the terminal: the launcher's own input and output.
    """

    rank: int
    task: str
    port: int
    env: Mapping[str, str]
    folder: Path
    foreground: bool = False

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
        isolated: Whether they are in a network of their own.
        notices: What the user should know before they start, a line each.
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
    restarts: RestartWish = field(default_factory=RestartWish)
    attempt: int = 0
    isolated: bool = False
    notices: tuple[str, ...] = ()

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
    network: Network,
    run_dir: Path,
    scratch: Path | None,
    environ: Mapping[str, str],
    start: StartMethod,
    attempt: int = 0,
) -> RunPlan:
    """Turn a checked request into a plan.

    Args:
        request: What was asked for.
        network: Where the workers' servers will listen.
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
        ports=list(network.ports),
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
    shares = _gpu_shares(request, given)
    folder = run_dir / f"attempt_{attempt}"
    plan = RunPlan(
        python=sys.executable,
        kind="module" if request.is_module else "script",
        target=request.target,
        args=request.args,
        run_dir=run_dir,
        workers=tuple(
            _plan_worker(rank, task, port, config, folder, {**shared, **shares[rank]})
            for rank, (task, port) in enumerate(zip(cluster.tasks, network.ports, strict=True))
        ),
        deadlines=request.deadlines,
        console=request.console,
        start=start,
        fast_exit=request.fast_exit,
        restarts=request.restarts,
        attempt=attempt,
        isolated=network.namespace is not None,
        notices=(*network.notices, *start.notices),
    )
    return plan if request.debug_rank is None else _debugged(plan, request.debug_rank)


def _gpu_shares(request: RunRequest, given: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
    """What each rank's environment says about GPUs."""
    if request.gpus_per_worker is None:
        return [{}] * request.size
    shares = gpus.share_out(request.size, request.gpus_per_worker, given)
    return [{gpus.VARIABLE: share} for share in shares]


def _debugged(plan: RunPlan, rank: int) -> RunPlan:
    """The same plan, but that one rank has the terminal and all the time in the world."""
    variable = {"TFDIST_DEBUG_RANK": str(rank)}
    notice = (
        f"{plan.workers[rank].name} has the terminal: its output is not logged, and no deadline "
        "counts while it lives"
    )
    return replace(
        plan,
        workers=tuple(
            replace(worker, env={**worker.env, **variable}, foreground=worker.rank == rank)
            for worker in plan.workers
        ),
        deadlines=replace(plan.deadlines, total=None, start=None, stall=None),
        notices=(*plan.notices, notice),
    )


def _plan_worker(
    rank: int, task: Task, port: int, config: TFConfig, folder: Path, shared: Mapping[str, str]
) -> WorkerPlan:
    own = {"TF_CONFIG": config.for_task(task).to_json(), "TFDIST_RANK": str(rank)}
    return WorkerPlan(rank, str(task), port, {**shared, **own}, folder / f"rank_{rank}")
