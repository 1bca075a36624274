"""The cluster as data: its tasks, in rank order, and their addresses.

    arguments or JSON -> the lint's rules about clusters (errors raise) -> ClusterSpec -> Task

Every value here is frozen and right. Nothing here knows which task this process is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tfdist_kit._errors import UsageError
from tfdist_kit.tf_config.address import join_address
from tfdist_kit.tf_config.document import JOBS, TRAINING_JOBS, Document, as_index
from tfdist_kit.tf_config.findings import raise_errors
from tfdist_kit.tf_config.rules import CLUSTER_RULES, apply


@dataclass(frozen=True)
class Task:
    """One task of a cluster.

    Args:
        type: The job: ``chief``, ``worker``, ``evaluator`` or ``ps``.
        index: The place in the job, from 0 on.

    Raises:
        UsageError: There is no such job, or the index is not a whole number from 0 on.
    """

    type: str
    index: int

    def __post_init__(self) -> None:
        if self.type not in JOBS:
            raise UsageError(
                f"the task type {self.type!r} is not one that TensorFlow knows",
                hint=f"the task types are: {', '.join(JOBS)}",
            )
        if not isinstance(self.index, int) or isinstance(self.index, bool) or self.index < 0:
            raise UsageError(
                f"the task index {self.index!r} is not a whole number from 0 on",
                hint="write the place of the task in its job, for example worker:0",
            )

    @classmethod
    def parse(cls, text: str) -> Task:
        """Read ``type:index``, for example ``worker:1``.

        Raises:
            UsageError: It is not written so.
        """
        kind, colon, index = text.partition(":")
        number = as_index(index)
        if not colon or number is None:
            raise UsageError(
                f"the task {text!r} is not written as type:index",
                hint="write, for example, worker:1",
            )
        return cls(kind, number)

    def __str__(self) -> str:
        return f"{self.type}:{self.index}"


@dataclass(frozen=True)
class ClusterSpec:
    """The tasks of a cluster and their addresses.

    Args:
        jobs: Addresses ``host:port`` by job, in the order of the tasks' indices. As in TensorFlow
            a job may also be an object ``{"0": "host:port"}``. Kept as tuples in rank order.

    Raises:
        TFConfigError: The cluster cannot work; carries the findings.
    """

    jobs: Mapping[str, Sequence[str]]

    def __post_init__(self) -> None:
        document = Document.read({"cluster": self.jobs})
        raise_errors(apply(CLUSTER_RULES, document))
        jobs = {
            name: tuple(entry.address for entry in job.entries)
            for name in JOBS
            if (job := document.job(name)) is not None and job.entries
        }
        object.__setattr__(self, "jobs", MappingProxyType(jobs))

    @classmethod
    def local(
        cls,
        workers: int = 2,
        *,
        ports: Sequence[int],
        chief: bool = False,
        evaluator: bool = False,
        host: str = "localhost",
    ) -> ClusterSpec:
        """A cluster on one machine.

        Args:
            workers: How many tasks of type ``worker``; the chief is not one of them.
            ports: One port per task, in rank order.
            chief: Whether to add a task of type ``chief``.
            evaluator: Whether to add a task of type ``evaluator``.
            host: The machine's name.

        Raises:
            UsageError: There are no tasks that train, or there is not one port per task.
        """
        addresses = [join_address(host, port) for port in ports]
        return cls.from_addresses(addresses, workers=workers, chief=chief, evaluator=evaluator)

    @classmethod
    def from_addresses(
        cls,
        addresses: Sequence[str],
        *,
        workers: int,
        chief: bool = False,
        evaluator: bool = False,
    ) -> ClusterSpec:
        """A cluster of the given addresses: the chief's, the workers', the evaluator's.

        Args:
            addresses: One ``host:port`` per task, in rank order.
            workers: How many tasks of type ``worker``; the chief is not one of them.
            chief: Whether the first address is that of a chief.
            evaluator: Whether the last address is that of an evaluator.

        Raises:
            UsageError: There are no tasks that train, or there is not one address per task.
        """
        if workers < 0 or workers + chief < 1:
            raise UsageError(
                f"the number of workers is {workers}", hint="give at least one worker or a chief"
            )
        size = chief + workers + evaluator
        if len(addresses) != size:
            raise UsageError(
                f"{len(addresses)} addresses were given for {size} tasks",
                hint="give one port or address per task: chief, workers, evaluator",
            )
        left = iter(addresses)
        counts = {"chief": int(chief), "worker": workers, "evaluator": int(evaluator)}
        jobs = {job: [next(left) for _ in range(count)] for job, count in counts.items() if count}
        return cls(jobs)

    @property
    def tasks(self) -> tuple[Task, ...]:
        """All tasks in rank order: chief, workers, evaluator, parameter servers."""
        return tuple(
            Task(job, index) for job, places in self.jobs.items() for index in range(len(places))
        )

    @property
    def training_tasks(self) -> tuple[Task, ...]:
        """The tasks that join the collectives, in rank order: chief and workers."""
        return tuple(task for task in self.tasks if task.type in TRAINING_JOBS)

    @property
    def num_training_tasks(self) -> int:
        """How many tasks train together; the chief is one of them."""
        return sum(len(self.jobs.get(job, ())) for job in TRAINING_JOBS)

    @property
    def chief(self) -> Task | None:
        """The task that acts as chief: ``chief:0``, else ``worker:0``; None if nobody trains."""
        return next(iter(self.training_tasks), None)

    def __contains__(self, task: object) -> bool:
        return isinstance(task, Task) and task.index < len(self.jobs.get(task.type, ()))

    def address(self, task: Task) -> str:
        """The ``host:port`` of a task.

        Raises:
            UsageError: The cluster has no such task.
        """
        if task not in self:
            raise UsageError(
                f"the task {task} is not in the cluster",
                hint=f"its tasks are: {', '.join(map(str, self.tasks))}",
            )
        return self.jobs[task.type][task.index]

    def without(self, job: str) -> ClusterSpec:
        """The cluster without one of its jobs."""
        return ClusterSpec({name: places for name, places in self.jobs.items() if name != job})

    def to_dict(self) -> dict[str, list[str]]:
        """The jobs as JSON-ready data, in rank order."""
        return {job: list(places) for job, places in self.jobs.items()}

    def __hash__(self) -> int:
        return hash(tuple(self.jobs.items()))

    def __reduce__(self) -> tuple[type[ClusterSpec], tuple[Any, ...]]:
        return ClusterSpec, (dict(self.jobs),)
