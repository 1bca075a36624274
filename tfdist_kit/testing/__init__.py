"""For tests of distributed TensorFlow code. TensorFlow is imported when a check is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfdist_kit import _lazy

if TYPE_CHECKING:
    from tfdist_kit.testing.checks.each_row_once import assert_each_row_once
    from tfdist_kit.testing.checks.replicas_agree import assert_replicas_agree
    from tfdist_kit.testing.checks.same_as_single_process import assert_same_as_single_process

__all__ = ["assert_each_row_once", "assert_replicas_agree", "assert_same_as_single_process"]

__getattr__ = _lazy.looked_up(
    __name__,
    {name: f"tfdist_kit.testing.checks.{name.removeprefix('assert_')}" for name in __all__},
)


def __dir__() -> list[str]:
    return sorted(__all__)
