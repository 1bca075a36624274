"""TF_CONFIG read tolerantly: what is written, beside what was most likely meant.

    text or object -> Document.read -> Document -> the rules (what is wrong?)
                                               `-> the model (what does it say?)

A wrongly spelt key is taken for the key that was meant, so that one mistake gives one finding and
what stands behind it is looked at as well. Nothing here judges, and nothing here raises.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from tfdist_kit.tf_config.findings import MISSING, path

JOBS: Final = ("chief", "worker", "evaluator", "ps")
"""The jobs that TensorFlow knows, in rank order."""

TRAINING_JOBS: Final = ("chief", "worker")
"""The jobs whose tasks join the collectives."""

_LONGEST_NAME = 40
_NEAR = 0.7


def meant(given: str, known: Iterable[str]) -> str | None:
    """The known name that `given` was most likely meant to be; itself where it is known."""
    name = given.lower()
    names = tuple(known)
    if name in names:
        return name
    # Comparing takes time that grows with the square of the length.
    if len(name) > _LONGEST_NAME:
        return None
    return next(iter(difflib.get_close_matches(name, names, n=1, cutoff=_NEAR)), None)


def find_key(mapping: Mapping[str, Any], name: str) -> str | None:
    """The key of `mapping` that was meant to be `name`."""
    if name in mapping:
        return name
    by_case = [key for key in mapping if key.lower() == name]
    return next(iter(by_case + [key for key in mapping if meant(key, [name])]), None)


def meant_job(given: str) -> str | None:
    """The job that was most likely meant; ``master`` is the old name of ``chief``."""
    return "chief" if given.lower() == "master" else meant(given, JOBS)


@dataclass(frozen=True)
class Entry:
    """One address of the cluster, as it is written.

    Attributes:
        job: The job that was meant; None if that cannot be told.
        index: The task's index in its job.
        where: The place of the address in TF_CONFIG.
        address: What is written there.
    """

    job: str | None
    index: int
    where: str
    address: Any


@dataclass(frozen=True)
class Job:
    """One job of the cluster.

    Attributes:
        name: The job that was meant; None if that cannot be told.
        given: Its key in TF_CONFIG.
        value: What is written there: a list of addresses, or an object ``{"0": address}``.
    """

    name: str | None
    given: str
    value: Any

    @property
    def where(self) -> str:
        """The place of the job in TF_CONFIG."""
        return path("cluster", self.given)

    @cached_property
    def indices(self) -> tuple[int, ...]:
        """The indices of the job's tasks, sorted; keys that are no numbers are left out."""
        if isinstance(self.value, list):
            return tuple(range(len(self.value)))
        if isinstance(self.value, dict):
            return tuple(sorted(self._by_index))
        return ()

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """The job's addresses in the order of their indices."""
        values = self.value if isinstance(self.value, list) else self._by_index
        return tuple(
            Entry(self.name, index, path("cluster", self.given, index), values[index])
            for index in self.indices
        )

    @cached_property
    def _by_index(self) -> dict[int, Any]:
        value = self.value if isinstance(self.value, dict) else {}
        numbered = ((as_index(key), address) for key, address in value.items())
        return {index: address for index, address in numbered if index is not None}


def as_index(given: Any) -> int | None:
    """The index that TensorFlow reads, by ``int(given)``; None where that fails."""
    try:
        return int(given)
    except (TypeError, ValueError, OverflowError):
        return None


@dataclass(frozen=True)
class Document:
    """One TF_CONFIG.

    Attributes:
        text: As it was given; None if it is not set.
        value: What the JSON says; MISSING if there is none, or it is not JSON.
        flaw: Why the text is not JSON; empty if it is.
        repeated: Keys that occur twice in one object, of which JSON keeps the last.
        constants: ``NaN`` and ``Infinity``, which Python writes and JSON does not have.
    """

    text: str | None
    value: Any = MISSING
    flaw: str = ""
    repeated: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()

    @classmethod
    def read(cls, config: object) -> Document:
        """Read a text, or an object that could be written as JSON; None means "not set"."""
        if config is None:
            return cls(None)
        text = config if isinstance(config, str) else _as_json(config)
        reader = _Reader()
        try:
            value = reader.read(text)
        except (ValueError, RecursionError) as error:
            return cls(text, flaw=str(error))
        return cls(text, value, repeated=tuple(reader.repeated), constants=tuple(reader.constants))

    @property
    def root(self) -> dict[str, Any]:
        """The whole object; empty where there is none."""
        return self.value if isinstance(self.value, dict) else {}

    @cached_property
    def cluster(self) -> Any:
        """The value of the key that was meant to be ``cluster``; MISSING if there is none."""
        return self.root.get(find_key(self.root, "cluster") or "cluster", MISSING)

    @cached_property
    def jobs(self) -> tuple[Job, ...]:
        """The jobs of the cluster in the order in which they are written."""
        cluster = self.cluster if isinstance(self.cluster, dict) else {}
        return tuple(Job(meant_job(given), given, value) for given, value in cluster.items())

    def job(self, name: str | None) -> Job | None:
        """The job that was meant to be `name`, the rightly spelt one before others."""
        named = [job for job in self.jobs if job.name == name and name is not None]
        return next((job for job in named if job.given == name), next(iter(named), None))

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """All addresses."""
        return tuple(entry for job in self.jobs for entry in job.entries)

    @cached_property
    def task(self) -> Any:
        """The value of the key that was meant to be ``task``; MISSING if there is none."""
        return self.root.get(find_key(self.root, "task") or "task", MISSING)

    def task_field(self, name: str) -> Any:
        """The value of a key of the task; MISSING if there is none."""
        task = self.task if isinstance(self.task, dict) else {}
        return task.get(find_key(task, name) or name, MISSING)

    @cached_property
    def task_type(self) -> str | None:
        """The task type that was meant; None if that cannot be told."""
        given = self.task_field("type")
        return meant_job(given) if isinstance(given, str) else None

    @cached_property
    def own(self) -> Entry | None:
        """This task's own address; None if that cannot be told."""
        job, index = self.job(self.task_type), as_index(self.task_field("index"))
        entries = job.entries if job else ()
        return next((entry for entry in entries if entry.index == index), None)

    @cached_property
    def extra(self) -> dict[str, Any]:
        """What is written besides the cluster and the task's type and index."""
        extra = {key: value for key, value in self.root.items() if key not in ("cluster", "task")}
        task = self.task if isinstance(self.task, dict) else {}
        of_task = {key: value for key, value in task.items() if key not in ("type", "index")}
        return {**extra, "task": of_task} if of_task else extra


class _Reader:
    """Reads JSON as TensorFlow does, and remembers what Python passes over in silence."""

    def __init__(self) -> None:
        self.repeated: list[str] = []
        self.constants: list[str] = []

    def read(self, text: str) -> Any:
        return json.loads(text, object_pairs_hook=self._on_object, parse_constant=self._on_constant)

    def _on_object(self, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in pairs:
            if key in result:
                self.repeated.append(key)
            result[key] = value
        return result

    def _on_constant(self, name: str) -> float:
        self.constants.append(name)
        return float(name)


def _as_json(config: object) -> str:
    """Write an object as JSON; what JSON cannot hold is written as its repr."""
    try:
        return json.dumps(config, default=_plain, skipkeys=True)
    except (ValueError, RecursionError):
        return json.dumps(repr(type(config)))


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    return repr(value)
