"""Local clusters: one process per worker, supervised until the last one has left.

    RunRequest -> plan -> spawn -> worker processes -> supervisor -> outcome, summary

The supervising process never imports TensorFlow, and nothing here listens on a network.
"""

from tfdist_kit.launcher.launch import dry_run, run
from tfdist_kit.launcher.outcome import Outcome
from tfdist_kit.launcher.plan import ConsoleWish, Deadlines, RunPlan, RunRequest

__all__ = ["ConsoleWish", "Deadlines", "Outcome", "RunPlan", "RunRequest", "dry_run", "run"]
