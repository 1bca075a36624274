"""TF_CONFIG as data: the cluster, which of its tasks this is, and what a platform added.

    parse, from_env    JSON -> lint (errors raise) -> TFConfig
    for_task, to_json  ClusterSpec and Task -> TFConfig -> JSON

Every value here is frozen and right: the rules of the lint are applied wherever one is made.
Nothing here looks at ``os.environ``, at TensorFlow or at the network.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from tfdist_kit._errors import TFConfigError
from tfdist_kit.tf_config.cluster import ClusterSpec, Task
from tfdist_kit.tf_config.document import Document
from tfdist_kit.tf_config.findings import raise_errors
from tfdist_kit.tf_config.lint import lint, lint_environ
from tfdist_kit.tf_config.rules import TASK_RULES, apply


@dataclass(frozen=True)
class TFConfig:
    """What TF_CONFIG says.

    Args:
        cluster: The cluster; None where TF_CONFIG is not set.
        task: Which of the cluster's tasks this process is; None for all of them.
        extra: What else is written, as platforms do: ``environment``, ``job``, ``rpc_layer``, and
            under ``task`` the task's further keys.

    Raises:
        TFConfigError: The task is not one of the cluster's; carries the findings.
    """

    cluster: ClusterSpec | None = None
    task: Task | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Through JSON, so that the order is settled and nobody else holds what is inside.
        extra = json.loads(json.dumps(dict(self.extra), sort_keys=True))
        object.__setattr__(self, "extra", MappingProxyType(extra))
        if self.task is None:
            return
        if self.cluster is None:
            raise TFConfigError(
                f"the task {self.task} has no cluster",
                hint="give the cluster that the task belongs to",
            )
        raise_errors(apply(TASK_RULES, Document.read(self.to_dict())))

    @classmethod
    def parse(cls, config: str | Mapping[str, Any]) -> TFConfig:
        """Read a TF_CONFIG.

        Args:
            config: The JSON text, or what it says.

        Raises:
            TFConfigError: It cannot describe a working cluster; carries the findings.
        """
        raise_errors(lint(config))
        return cls._of(Document.read(config))

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> TFConfig:
        """Read the TF_CONFIG of an environment.

        Args:
            environ: The environment, for example ``os.environ``.

        Returns:
            What TF_CONFIG says; a TFConfig without a cluster where it is not set.

        Raises:
            TFConfigError: It cannot describe a working cluster; carries the findings.
        """
        raise_errors(lint_environ(environ))
        return cls._of(Document.read(environ.get("TF_CONFIG")))

    @classmethod
    def _of(cls, document: Document) -> TFConfig:
        """The model of a document that has no errors."""
        if document.text is None:
            return cls()
        task = Task(str(document.task_type), int(document.task_field("index")))
        return cls(ClusterSpec(document.cluster), task, document.extra)

    def for_task(self, task: Task | str, index: int | None = None) -> TFConfig:
        """The TF_CONFIG of another task of the same cluster.

        Args:
            task: A `Task`, its type, or ``type:index``.
            index: The task's index, where `task` is only its type.

        Raises:
            TFConfigError: The cluster has no such task; carries the findings.
        """
        if isinstance(task, str):
            task = Task.parse(task) if index is None else Task(task, index)
        return TFConfig(self.cluster, task, self.extra)

    def to_dict(self) -> dict[str, Any]:
        """TF_CONFIG as JSON-ready data."""
        extra = dict(self.extra)
        of_task = extra.pop("task", {})
        data: dict[str, Any] = {}
        if self.cluster is not None:
            data["cluster"] = self.cluster.to_dict()
        if self.task is not None:
            data["task"] = {"type": self.task.type, "index": self.task.index, **of_task}
        return {**data, **extra}

    def to_json(self) -> str:
        """TF_CONFIG as a text; equal configurations give equal texts."""
        return json.dumps(self.to_dict())

    def __hash__(self) -> int:
        return hash((self.cluster, self.task, frozenset(self.extra)))

    def __reduce__(self) -> tuple[type[TFConfig], tuple[Any, ...]]:
        return TFConfig, (self.cluster, self.task, dict(self.extra))
