"""Which GPUs each worker may see: CUDA_VISIBLE_DEVICES, shared out in the order of the ranks.

CUDA itself is not asked: a process that has touched it can no longer be forked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from tfdist_kit._errors import UsageError

VARIABLE = "CUDA_VISIBLE_DEVICES"
DRIVER = Path("/proc/driver/nvidia/gpus")
_DEVICE = re.compile(r"\d+|(GPU|MIG)-\S+")


def visible(environ: Mapping[str, str], driver: Path = DRIVER) -> tuple[str, ...]:
    """The GPUs that a program with this environment sees, as CUDA_VISIBLE_DEVICES names them.

    Args:
        environ: An environment; its own CUDA_VISIBLE_DEVICES counts, up to the first entry that
            is no device, as CUDA reads it.
        driver: A folder with an entry per GPU of this machine.
    """
    if VARIABLE not in environ:
        count = len(list(driver.iterdir())) if driver.is_dir() else 0
        return tuple(str(number) for number in range(count))
    names = []
    for entry in environ[VARIABLE].split(","):
        if not _DEVICE.fullmatch(entry.strip()):
            break
        names.append(entry.strip())
    return tuple(names)


def share_out(
    workers: int, per_worker: int, environ: Mapping[str, str], driver: Path = DRIVER
) -> tuple[str, ...]:
    """The value of CUDA_VISIBLE_DEVICES for each worker, in rank order.

    Args:
        workers: Number of processes.
        per_worker: How many GPUs each of them gets; 0 hides all.
        environ: The environment that the workers inherit.
        driver: As for `visible`.

    Raises:
        UsageError: There are not that many.
    """
    if per_worker < 0:
        raise UsageError(
            f"the number of GPUs per worker is {per_worker}", hint="give 1 or more, or 0 for none"
        )
    if per_worker == 0:
        return ("-1",) * workers
    names = visible(environ, driver)
    needed = workers * per_worker
    if needed > len(names):
        where = f"in {VARIABLE}={environ[VARIABLE]}" if VARIABLE in environ else f"in {driver}"
        raise UsageError(
            f"{workers} workers with {per_worker} GPU{'s' if per_worker > 1 else ''} each need "
            f"{needed}, and {len(names)} "
            f"{'is' if len(names) == 1 else 'are'} {where}",
            hint=f"start fewer workers, give each fewer GPUs, or name them all in {VARIABLE}",
        )
    starts = range(0, needed, per_worker)
    return tuple(",".join(names[start : start + per_worker]) for start in starts)
