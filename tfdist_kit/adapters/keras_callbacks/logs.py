"""The logs of an epoch, the same on all workers.

Keras' own logs are the same already (see `tfdist_kit.adapters.keras`). Those that a callback or a
`train_step` of the user's adds may not be, and a decision by them would part the workers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tfdist_kit.adapters._meeting import group_of
from tfdist_kit.adapters._together import Together


def agreed(strategy: Any, logs: Mapping[str, Any] | None, deadline: float) -> dict[str, Any]:
    """What all workers take the logs to be; every worker calls it.

    Args:
        strategy: The strategy; with any that does not span workers the logs stay as they are.
        logs: This worker's.
        deadline: Seconds to wait for the last worker.

    Returns:
        The logs; a number that is not the same on all workers is the mean of those that have it.

    Raises:
        CheckpointError: A worker did not call it within `deadline`; names it.
    """
    own = dict(logs or {})
    numbers = {name: float(value) for name, value in own.items() if is_number(value)}
    together = Together(group_of(strategy), deadline=deadline, doing="compared", what="the logs")
    told = together.agree(numbers)
    for name in sorted({name for each in told.values() for name in each}):
        values = [each[name] for each in told.values() if name in each]
        if len(values) < len(told) or any(value != values[0] for value in values):
            own[name] = math.fsum(values) / len(values)
    return own


def is_number(value: Any) -> bool:
    """Whether a value of the logs is one number."""
    if getattr(value, "shape", ()) != ():
        return False
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
