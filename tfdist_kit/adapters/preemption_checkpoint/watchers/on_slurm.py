"""Notices of Slurm: a signal that the job asked for, SIGTERM, or the time limit coming near.

sbatch --signal=USR1@120 -> SIGUSR1 to the processes of the job's steps, 120 s ahead or more
preemption, scancel      -> SIGTERM, and SIGKILL after a while
before_end=120           -> SLURM_JOB_END_TIME, looked at by the watcher
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from typing import Any

from tfdist_kit._errors import UsageError
from tfdist_kit.adapters.preemption_checkpoint.watchers.config import seconds, termination_config
from tfdist_kit.adapters.preemption_checkpoint.watchers.metadata import Client
from tfdist_kit.adapters.preemption_checkpoint.watchers.polling import Watcher

END = "SLURM_JOB_END_TIME"


def slurm(
    *,
    signals: Iterable[int] = (signal.SIGUSR1, signal.SIGTERM),
    before_end: float | None = None,
    **termination: Any,
) -> Any:
    """A `TerminationConfig` for job steps of Slurm.

    Args:
        signals: The signals that are notices. TensorFlow's own handler does not know them: it
            heeds SIGTERM, and that only while `before_end` is None.
        before_end: How many seconds before the job's time limit to give notice without a signal;
            None for no such notice. It goes by the limit that the job had when it started.
        termination: What else `Termination` takes: ``exit_fn=``, ``grace_period=``, ...

    Returns:
        A `Termination`.

    Raises:
        UsageError: An argument cannot be used, or `before_end` was given outside of a job.
    """
    wanted = _checked(signals)
    watcher = None if before_end is None else slurm_watcher(before_end)
    return termination_config(watcher, {"signals": wanted, **termination})


def slurm_watcher(before_end: float) -> Callable[[], bool]:
    """The watcher of `slurm`."""
    ahead = seconds("before_end", before_end)
    told = os.environ.get(END, "")
    if not told.isascii() or not told.isdecimal():
        raise UsageError(
            f"before_end is {before_end!r}, but {END} is {told!r}",
            hint="only a job of Slurm 22.05 or newer has it; else use sbatch --signal",
        )

    def look(client: Client) -> bool:
        return time.time() >= int(told) - ahead

    return Watcher("slurm", look)


def _checked(signals: Iterable[int]) -> tuple[signal.Signals, ...]:
    try:
        found = tuple(signal.Signals(number) for number in signals)
    except (TypeError, ValueError):
        found = ()
    if not found or {signal.SIGKILL, signal.SIGSTOP} & set(found):
        raise UsageError(
            f"signals is {signals!r}", hint="give signals such as signal.SIGUSR1 in a tuple"
        )
    return found
