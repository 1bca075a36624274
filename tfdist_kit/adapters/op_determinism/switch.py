"""TensorFlow's switch: whether it is on, and off for a while."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tfdist_kit.adapters._private import private

_CONFIG = "tensorflow.python.framework.config"


def is_enabled() -> bool:
    """Whether op determinism is on, by whatever switched it on.

    The first question settles what the environment's TF_DETERMINISTIC_OPS says.

    Raises:
        UnsupportedVersionError: TensorFlow's internals are not as expected.
    """
    return bool(private(_CONFIG, "is_op_determinism_enabled")())


@contextlib.contextmanager
def disabled() -> Iterator[None]:
    """Have op determinism off within this, for a test; afterwards it is as it was.

    Operations heed it at once. A function that was traced before keeps the ops that it was traced
    with, and a dataset that was read before stays in order; so do they afterwards, the other way.

    Raises:
        UnsupportedVersionError: TensorFlow's internals are not as expected.
    """
    with switched(on=False):
        yield


@contextlib.contextmanager
def switched(*, on: bool) -> Iterator[None]:
    """Have the switch on or off within this."""
    was = is_enabled()
    set_to(on)
    try:
        yield
    finally:
        set_to(was)


def set_to(on: bool) -> None:
    """Turn the switch, and nothing else."""
    name = "enable_op_determinism" if on else "disable_op_determinism"
    private(_CONFIG, name)()
