"""Local clusters: one process per worker, supervised until the last one has left.

    RunRequest -> plan -> spawn -> worker processes -> supervisor -> outcome, summary

The supervising process never imports TensorFlow, and nothing here listens on a network. The names
below are looked up when they are first used: a worker, and a program that only makes a strategy,
need next to nothing of this room.
"""

from typing import TYPE_CHECKING

from tfdist_kit import _lazy

if TYPE_CHECKING:
    from tfdist_kit.launcher.launch import dry_run, run
    from tfdist_kit.launcher.outcome import Outcome
    from tfdist_kit.launcher.plan import ConsoleWish, Deadlines, RestartWish, RunPlan, RunRequest

__all__ = [
    "ConsoleWish",
    "Deadlines",
    "Outcome",
    "RestartWish",
    "RunPlan",
    "RunRequest",
    "dry_run",
    "run",
]

__getattr__ = _lazy.looked_up(
    __name__,
    {
        "ConsoleWish": "tfdist_kit.launcher.plan",
        "Deadlines": "tfdist_kit.launcher.plan",
        "Outcome": "tfdist_kit.launcher.outcome",
        "RestartWish": "tfdist_kit.launcher.plan",
        "RunPlan": "tfdist_kit.launcher.plan",
        "RunRequest": "tfdist_kit.launcher.plan",
        "dry_run": "tfdist_kit.launcher.launch",
        "run": "tfdist_kit.launcher.launch",
    },
)
