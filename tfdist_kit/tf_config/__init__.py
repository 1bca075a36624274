"""TF_CONFIG as data: build it, read it, and find every mistake in it before TensorFlow does.

    arguments -> ClusterSpec -> TFConfig -> JSON
    JSON -> lint -> findings, each with a code, a reason and a cure

Nothing in this room imports TensorFlow, starts a process or reads anything but what it is handed;
only the functions of `tfdist_kit.tf_config.probe` ask the network.
"""

from __future__ import annotations

from tfdist_kit.tf_config.address import join_address, split_address
from tfdist_kit.tf_config.cluster import ClusterSpec, Task
from tfdist_kit.tf_config.findings import MISTAKES, Finding, Mistake, raise_errors
from tfdist_kit.tf_config.lint import lint, lint_environ, lint_together
from tfdist_kit.tf_config.model import TFConfig
from tfdist_kit.tf_config.probe import accepts_connections, can_bind, is_own_address, resolves

__all__ = [
    "MISTAKES",
    "ClusterSpec",
    "Finding",
    "Mistake",
    "TFConfig",
    "Task",
    "accepts_connections",
    "can_bind",
    "is_own_address",
    "join_address",
    "lint",
    "lint_environ",
    "lint_together",
    "raise_errors",
    "resolves",
    "split_address",
]
