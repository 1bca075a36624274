"""Local clusters: one process per worker, supervised until the last one has left.

    request -> check -> plan -> launch: series of attempts -> start/ -> the workers: inside/
    output/, messages -> supervisor -> records, hangs/ -> outcome -> restart, summary

    network/   where the workers' servers listen      start/   how a process comes to life
    output/    files, console, status lines           inside/  what runs in it
    hangs/     where every worker is                  clusters/  `LocalCluster`

The supervising process never imports TensorFlow, and nothing here listens on a network. The names
below are looked up when they are first used: a worker, and a program that only makes a strategy,
need next to nothing of this room.
"""

from typing import TYPE_CHECKING

from tfdist_kit import _lazy

if TYPE_CHECKING:
    from tfdist_kit.launcher.clusters.calls import RemoteTraceback
    from tfdist_kit.launcher.clusters.cluster import LocalCluster
    from tfdist_kit.launcher.clusters.outcomes import CallOutcome, RankOutcome
    from tfdist_kit.launcher.clusters.pool import close_pool, warm_up
    from tfdist_kit.launcher.launch import dry_run, run
    from tfdist_kit.launcher.outcome import Outcome
    from tfdist_kit.launcher.plan import RunPlan
    from tfdist_kit.launcher.request import ConsoleWish, Deadlines, RestartWish, RunRequest

__all__ = [
    "CallOutcome",
    "ConsoleWish",
    "Deadlines",
    "LocalCluster",
    "Outcome",
    "RankOutcome",
    "RemoteTraceback",
    "RestartWish",
    "RunPlan",
    "RunRequest",
    "close_pool",
    "dry_run",
    "run",
    "warm_up",
]

__getattr__ = _lazy.looked_up(
    __name__,
    {
        "CallOutcome": "tfdist_kit.launcher.clusters.outcomes",
        "ConsoleWish": "tfdist_kit.launcher.request",
        "Deadlines": "tfdist_kit.launcher.request",
        "LocalCluster": "tfdist_kit.launcher.clusters.cluster",
        "Outcome": "tfdist_kit.launcher.outcome",
        "RankOutcome": "tfdist_kit.launcher.clusters.outcomes",
        "RemoteTraceback": "tfdist_kit.launcher.clusters.calls",
        "RestartWish": "tfdist_kit.launcher.request",
        "RunPlan": "tfdist_kit.launcher.plan",
        "RunRequest": "tfdist_kit.launcher.request",
        "close_pool": "tfdist_kit.launcher.clusters.pool",
        "dry_run": "tfdist_kit.launcher.launch",
        "run": "tfdist_kit.launcher.launch",
        "warm_up": "tfdist_kit.launcher.clusters.pool",
    },
)
