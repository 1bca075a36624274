"""Where the workers of a strategy tell each other something from Python, without a collective.

    each worker's words -> the coordination service -> the chief -> all words, or who is absent
        -> every worker

The service keeps a value under a key, and refuses a second one. So the chief's list of words and
"worker:1 is absent" exclude each other: whatever becomes of a meeting, all workers learn the same,
also those that come too late.
All workers hold the same meetings in the same order. Each is a conversation of several rounds, and
has a number that every worker counts for itself.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfdist_kit.adapters._keys import Keys
from tfdist_kit.adapters._private import private

_CHIEF = ("tensorflow.python.distribute.multi_worker_util", "is_chief")
_TRAINING = ("chief", "worker")
_SLACK = 2.0
"""Seconds that the others leave the chief to tell who is absent."""

_numbers = itertools.count()


class AbsentError(Exception):
    """Some tasks did not come to a meeting in time; carries them."""

    def __init__(self, tasks: tuple[str, ...]) -> None:
        super().__init__(", ".join(tasks))
        self.tasks = tasks


@dataclass(frozen=True)
class Group:
    """The tasks that train together.

    Attributes:
        tasks: All of them, in rank order, as ``type:index``.
        task: This one.
        is_chief: Whether TensorFlow calls this one the chief.
    """

    tasks: tuple[str, ...] = ("worker:0",)
    task: str = "worker:0"
    is_chief: bool = True

    @property
    def chief(self) -> str:
        """The task that TensorFlow calls the chief, which comes first."""
        return self.tasks[0]


def group_of(strategy: Any) -> Group:
    """The tasks that `strategy` spans; one alone for any other strategy, an evaluator and None."""
    import tensorflow as tf

    v1 = tf.compat.v1.distribute.experimental.MultiWorkerMirroredStrategy
    if not isinstance(strategy, (tf.distribute.MultiWorkerMirroredStrategy, v1)):
        return Group()
    resolver = strategy.cluster_resolver
    spec = resolver.cluster_spec()
    jobs = {job: spec.num_tasks(job) for job in _TRAINING if job in spec.jobs}
    tasks = tuple(f"{job}:{index}" for job, count in jobs.items() for index in range(count))
    task = f"{resolver.task_type}:{resolver.task_id}"
    if len(tasks) < 2 or task not in tasks:
        return Group()
    chief = private(*_CHIEF)(spec, resolver.task_type, resolver.task_id)
    return Group(tasks, task, is_chief=chief)


class Meeting:
    """One conversation of a group.

    Args:
        group: Who takes part.
        deadline: Seconds that each round waits for the last one to come.
    """

    def __init__(self, group: Group, deadline: float) -> None:
        self._group = group
        self._deadline = deadline
        self._number = next(_numbers) if len(group.tasks) > 1 else 0
        self._rounds = itertools.count()
        self._done: list[str] = []

    def tell(self, words: Any) -> dict[str, Any]:
        """Tell all others something, and learn what they tell.

        Args:
            words: Anything that JSON can hold.

        Returns:
            What each task told, in rank order.

        Raises:
            AbsentError: Some tasks did not come in time; raised on all that did, and on those
                that come later.
            tf.errors.UnavailableError: A task has died.
        """
        if len(self._group.tasks) < 2:
            return {self._group.task: words}
        key = f"tfdist/meeting/{self._number}/{next(self._rounds)}"
        keys = Keys(self._group.tasks)
        keys.put(f"{key}/{self._group.task}", json.dumps(words))
        verdict = self._lead(keys, key) if self._group.is_chief else self._follow(keys, key)
        self._let_chief_go_last(keys, key, verdict)
        if absent := verdict.get("absent"):
            raise AbsentError(tuple(absent))
        self._forget(keys, key)
        return {task: verdict["words"][task] for task in self._group.tasks}

    def _lead(self, keys: Keys, key: str) -> Mapping[str, Any]:
        """Collect everybody's words; the chief's part."""
        end = time.monotonic() + self._deadline
        words = {}
        for task in self._group.tasks:
            told = keys.get(f"{key}/{task}", max(0.0, end - time.monotonic()))
            if told is None:
                return self._decide(keys, key, {"absent": self._absent(keys, key)})
            words[task] = json.loads(told)
        return self._decide(keys, key, {"words": words})

    def _follow(self, keys: Keys, key: str) -> Mapping[str, Any]:
        told = keys.get(f"{key}/verdict", self._deadline + _SLACK)
        if told is not None:
            verdict: Mapping[str, Any] = json.loads(told)
            return verdict
        return self._decide(keys, key, {"absent": self._absent(keys, key)})

    def _let_chief_go_last(self, keys: Keys, key: str, verdict: Mapping[str, Any]) -> None:
        """Have the chief, whose process keeps the keys, stay until all know the verdict."""
        if not self._group.is_chief:
            with contextlib.suppress(Exception):  # it has gone
                keys.put(f"{key}/read/{self._group.task}", "")
        elif "words" in verdict:
            end = time.monotonic() + _SLACK
            with contextlib.suppress(Exception):  # some other has
                for task in self._group.tasks[1:]:
                    keys.get(f"{key}/read/{task}", max(0.0, end - time.monotonic()))

    def _absent(self, keys: Keys, key: str) -> list[str]:
        return [
            task
            for task in self._group.tasks
            if task != self._group.task and keys.get(f"{key}/{task}", 0.0) is None
        ] or [self._group.chief]

    def _forget(self, keys: Keys, key: str) -> None:
        """Take back what nobody can want any more: all are past the round before this one."""
        while self._done:
            keys.remove(self._done.pop())
        self._done.append(f"{key}/{self._group.task}")
        if self._group.is_chief:
            self._done.append(f"{key}/verdict")
        else:
            self._done.append(f"{key}/read/{self._group.task}")

    def _decide(self, keys: Keys, key: str, verdict: Mapping[str, Any]) -> Mapping[str, Any]:
        """Settle a round, unless another worker has done so already; return what is settled."""
        if keys.put(f"{key}/verdict", json.dumps(verdict)):
            return verdict
        told = keys.get(f"{key}/verdict", _SLACK)
        settled: Mapping[str, Any] = json.loads(told or json.dumps(verdict))
        return settled
