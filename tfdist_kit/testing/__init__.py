"""For tests of distributed TensorFlow: a pytest plugin, and what tests use inside the workers.

    pytest's process:   marker -> warm (a cluster) -> order (what to run, with which values)
    each worker:        inside: pytest runs that one test -> reports
    pytest's process:   verdicts (one per rank, and the root cause) -> report

pytest does the testing, on both sides. Nothing here imports TensorFlow in pytest's process.
"""

from typing import TYPE_CHECKING

from tfdist_kit import _lazy

if TYPE_CHECKING:
    from tfdist_kit.testing.between_workers import (
        assert_ranks_agree,
        barrier,
        gather,
        parallel_assert,
        together,
    )
    from tfdist_kit.testing.checks.each_row_once import assert_each_row_once
    from tfdist_kit.testing.checks.replicas_agree import assert_replicas_agree
    from tfdist_kit.testing.checks.same_as_single_process import assert_same_as_single_process
    from tfdist_kit.testing.checks.tpu_step import assert_tpu_step
    from tfdist_kit.testing.worker import Worker

__all__ = [
    "Worker",
    "assert_each_row_once",
    "assert_ranks_agree",
    "assert_replicas_agree",
    "assert_same_as_single_process",
    "assert_tpu_step",
    "barrier",
    "gather",
    "parallel_assert",
    "together",
]

_CHECKS = "tfdist_kit.testing.checks"
_TOGETHER = "tfdist_kit.testing.between_workers"

__getattr__ = _lazy.looked_up(
    __name__,
    {
        "Worker": "tfdist_kit.testing.worker",
        "assert_each_row_once": f"{_CHECKS}.each_row_once",
        "assert_ranks_agree": _TOGETHER,
        "assert_replicas_agree": f"{_CHECKS}.replicas_agree",
        "assert_same_as_single_process": f"{_CHECKS}.same_as_single_process",
        "assert_tpu_step": f"{_CHECKS}.tpu_step",
        "barrier": _TOGETHER,
        "gather": _TOGETHER,
        "parallel_assert": _TOGETHER,
        "together": _TOGETHER,
    },
)
