"""What a test knows of the worker that it runs in."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

INSIDE = "tfdist-inside"
"""How the plugin is called in the pytest of a worker."""


@dataclass(frozen=True)
class Worker:
    """The worker that a test runs in; the value of the fixture ``tf_worker``.

    Attributes:
        rank: Its rank; the chief comes first, then the workers, then the evaluator.
        size: How many processes the test has.
        task: Its task in ``TF_CONFIG``, such as ``worker:1``.
        local_replicas: How many replicas a strategy has in this process.
    """

    rank: int = 0
    size: int = 1
    task: str = "worker:0"
    local_replicas: int = 1

    @property
    def is_chief(self) -> bool:
        """Whether this process does what only one of them may do, such as writing a summary."""
        return self.rank == 0


def this_worker(local_replicas: int = 1) -> Worker:
    """The worker that this process is; in any other process, a worker alone."""
    if "TFDIST_RANK" not in os.environ:
        return Worker()
    config = json.loads(os.environ["TF_CONFIG"])
    size = sum(map(len, config["cluster"].values()))
    task = f"{config['task']['type']}:{config['task']['index']}"
    return Worker(int(os.environ["TFDIST_RANK"]), size, task, local_replicas)
