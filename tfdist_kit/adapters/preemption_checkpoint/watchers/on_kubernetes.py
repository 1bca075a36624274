"""Notices of Kubernetes: SIGTERM, and before it what the pod's preStop hook writes.

A pod that is deleted or evicted first runs the hooks `preStop`, then its main processes get
SIGTERM, and when `terminationGracePeriodSeconds` have passed since the beginning, SIGKILL. A hook
that writes a file therefore tells earlier, and also where a shell is the main process and keeps
SIGTERM to itself. Nothing in a pod says how long the grace period is.
"""

from __future__ import annotations

import os
from typing import Any

from tfdist_kit.adapters.preemption_checkpoint.watchers.config import termination_config
from tfdist_kit.adapters.preemption_checkpoint.watchers.on_file import file_watcher


def kubernetes(
    *,
    notice_file: str | os.PathLike[str] | None = None,
    **termination: Any,
) -> Any:
    """A `TerminationConfig` for pods of Kubernetes.

    Args:
        notice_file: The file that the pod's preStop hook writes; it has to be in the container's
            own file system, for it must be gone when the container starts again. None to heed
            SIGTERM alone. TensorFlow's own handler heeds only one of the two, the file.
        termination: What else `Termination` takes: ``exit_fn=``, ``grace_period=``, ...

    Returns:
        A `Termination`.

    Raises:
        UsageError: An argument cannot be used.
    """
    watcher = None if notice_file is None else file_watcher(notice_file, "notice_file")
    return termination_config(watcher, termination)
