"""How many times longer a dataset takes with the switch on."""

from __future__ import annotations

import time
from typing import Any

from tfdist_kit.adapters.op_determinism.switch import switched

_ROUNDS = 2
"""The first one also sets TensorFlow up."""
_SHORTEST = 1e-6


def slowdown(dataset: Any, elements: int) -> float:
    """Read the first elements with the switch off and with it on, each twice.

    Args:
        dataset: The dataset.
        elements: How many elements are read, at most.

    Returns:
        The time with the switch on, in that with it off.
    """
    rounds = [
        (_seconds(dataset, elements, on=False), _seconds(dataset, elements, on=True))
        for _ in range(_ROUNDS)
    ]
    return min(on for _, on in rounds) / min(off for off, _ in rounds)


def _seconds(dataset: Any, elements: int, *, on: bool) -> float:
    derived = dataset.take(elements)  # the dataset itself may have been prepared already
    with switched(on=on):
        begin = time.perf_counter()
        for _ in derived:
            pass
        return max(time.perf_counter() - begin, _SHORTEST)
