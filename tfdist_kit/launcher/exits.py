"""What the exit codes of workers mean, where they say more than that something went wrong."""

from __future__ import annotations

import signal

from tfdist_kit.launcher.failure import Failure

PREEMPTED_EXIT = 42
"""Of a worker that saved, or had nothing to save, and is to be started again; of a run likewise."""
PREEMPTED_CODES = (PREEMPTED_EXIT, 128 + signal.SIGTERM, -signal.SIGTERM)
LOST_CODES = (128 + signal.SIGKILL, -signal.SIGKILL)
INTERRUPTED_CODES = (*PREEMPTED_CODES, *LOST_CODES)
CODES_IN_THE_WAKE = (1, -signal.SIGABRT)
"""With which a worker goes down that has lost a peer."""


def is_consequence(returncode: int | None, failure: Failure | None) -> bool:
    """Whether this end only follows from a peer's; without a record, its code must do.

    Args:
        returncode: Of the worker's process.
        failure: What the worker recorded.
    """
    return returncode in CODES_IN_THE_WAKE if failure is None else failure.aftermath


def is_by_signal(code: int | None, signum: int | None) -> bool:
    """Whether a process with this exit code was ended by `signum`; by None is none."""
    return signum is not None and code in (-signum, 128 + signum)
