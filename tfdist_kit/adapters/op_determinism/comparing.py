"""Are all workers alike, before they train?

each worker: facts, or why it could not even begin -> a meeting -> all know all
    -> one error, the same on all workers, that names worker and key; or none
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tfdist_kit._errors import TfdistError, UsageError
from tfdist_kit.adapters._differing import differences
from tfdist_kit.adapters._meeting import AbsentError, Group, Meeting, group_of
from tfdist_kit.adapters.op_determinism import silent
from tfdist_kit.adapters.op_determinism.facts import facts
from tfdist_kit.determinism.explaining import flat

TIMEOUT = 60.0
"""Seconds that the workers wait for the last one."""


def preflight(strategy: Any, *, timeout: float = TIMEOUT) -> None:
    """Have the workers compare what may change their bits: every worker calls it, after its seeds.

    They compare the switch, the seeds, the numbers of threads and CPUs, oneDNN, XLA, the precision,
    the versions, the environment variables that TensorFlow and its libraries read, and the
    hardware. No collective is run for it.

    Args:
        strategy: A `MultiWorkerMirroredStrategy`; any other trains in one process, in which only
            the switch and the seeds are checked.
        timeout: Seconds that the workers wait for the last one.

    Raises:
        UsageError: The workers are not alike, the switch is off, TensorFlow has no seed, or some
            worker did not come. The same error on all workers that did.
        tf.errors.UnavailableError: A worker has died.
    """
    compare_workers(strategy, lambda: None, timeout)


def compare_workers(strategy: Any, part: Callable[[], None], timeout: float = TIMEOUT) -> None:
    """Do something on all workers, and compare them: see `preflight`.

    Args:
        strategy: As in `preflight`.
        part: What this worker does first. If it raises an error of ours, all workers raise.
        timeout: As in `preflight`.
    """
    if not timeout > 0:
        raise UsageError(f"timeout is {timeout!r}", hint="give a number of seconds above 0")
    group = group_of(strategy)
    words, cause = _words(part)
    try:
        told = Meeting(group, timeout).tell(words)
    except AbsentError as error:
        raise UsageError(
            f"{error} did not come to compare the workers within {timeout:g} s",
            hint="every worker must make this call",
        ) from None
    _raise_failure(told, group, cause)
    if trouble := "; ".join(differences(told)) or _missing(told[group.task]):
        raise UsageError(
            f"this is not one deterministic training: {trouble}",
            hint="the same seed, settings, versions and hardware on all workers, and "
            "tfdist_kit.enable_op_determinism(seed) on each",
        )
    silent.warn_of_unseeded_keras()


def _words(part: Callable[[], None]) -> tuple[dict[str, Any], TfdistError | None]:
    try:
        part()
        return dict(flat(facts())), None
    except TfdistError as error:
        return {"failed": error.args[0], "hint": error.hint}, error


def _raise_failure(
    told: Mapping[str, Mapping[str, Any]], group: Group, cause: TfdistError | None
) -> None:
    for task, words in told.items():
        if "failed" in words:
            where = f" on {task}" if len(group.tasks) > 1 else ""
            message = f"determinism was not enabled{where}: {words['failed']}"
            raise UsageError(message, hint=words["hint"]) from cause


def _missing(own: Mapping[str, Any]) -> str:
    """What all workers lack."""
    lacks = []
    if not own["switches.op_determinism"]:
        lacks.append("op determinism is off")
    if own["seeds.tensorflow"] is None:
        lacks.append("TensorFlow has no seed")
    return "; ".join(lacks)
