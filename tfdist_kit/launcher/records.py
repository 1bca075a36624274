"""What an attempt leaves in the run folder while it goes on: events, and a status per worker.

Message -> event in ``events.jsonl``, and the newest state in the worker's ``status.json``
"""

from __future__ import annotations

from typing import Any

from tfdist_kit.launcher.messages import (
    Exited,
    Listening,
    Message,
    NotStarted,
    Progress,
    Said,
    Signalled,
)
from tfdist_kit.launcher.plan import RunPlan
from tfdist_kit.launcher.run_dir import RunDir


class Records:
    """The records of one attempt.

    Attributes:
        status: The newest status of each rank that was started.

    Args:
        plan: What was started.
        folder: The run folder.
    """

    def __init__(self, plan: RunPlan, folder: RunDir) -> None:
        self.status: dict[int, dict[str, Any]] = {}
        self._plan = plan
        self._folder = folder

    def note(self, message: Message) -> None:
        """Record what has happened."""
        match message:
            case Said(rank, phase):
                self.state(rank, phase)
            case Listening(rank):
                self.state(rank, "listening")
            case Progress(rank, step):
                if step is not None:
                    self._write(rank, step=step)
            case Exited(rank, returncode):
                self.state(rank, "exited", returncode=returncode)
            case NotStarted(rank):
                self._folder.event("not_started", rank=rank)
            case Signalled(signum):
                self._folder.event("received", signum=signum)

    def state(self, rank: int, state: str, **fields: Any) -> None:
        """Record a worker's new state."""
        self._folder.event(state, rank=rank, **fields)
        self._write(rank, state=state, **fields)

    def signal(self, rank: int, signum: int) -> None:
        """Record that a worker was sent a signal."""
        self._folder.event("signal", rank=rank, signum=signum)

    def _write(self, rank: int, **fields: Any) -> None:
        worker = self._plan.workers[rank]
        status = self.status.setdefault(rank, {"rank": rank, "task": worker.task})
        status.update(fields)
        self._folder.write_status(worker.folder, status)
