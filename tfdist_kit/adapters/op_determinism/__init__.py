"""TensorFlow's op determinism: switched on whole, on all workers alike, and without being slow.

enable_op_determinism -> too late for something? -> all seeds -> TensorFlow's own switch
    -> warnings wherever the program uses what the switch does not reach
preflight -> are all workers alike?        lint_dataset -> what makes a dataset slow, and the cure
record -> what each step has computed, as digests, for `tfdist determinism`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfdist_kit import _lazy

if TYPE_CHECKING:
    from tfdist_kit.adapters.op_determinism.comparing import preflight
    from tfdist_kit.adapters.op_determinism.enabling import enable_op_determinism
    from tfdist_kit.adapters.op_determinism.known import KNOWN, KnownOp
    from tfdist_kit.adapters.op_determinism.lint import lint_dataset
    from tfdist_kit.adapters.op_determinism.recorder import (
        check_replicas,
        manifest,
        record,
        recording,
    )
    from tfdist_kit.adapters.op_determinism.replicas import replica_seed, separate_replicas
    from tfdist_kit.adapters.op_determinism.rules import Finding
    from tfdist_kit.adapters.op_determinism.switch import disabled, is_enabled

__all__ = [
    "KNOWN",
    "Finding",
    "KnownOp",
    "check_replicas",
    "disabled",
    "enable_op_determinism",
    "is_enabled",
    "lint_dataset",
    "manifest",
    "preflight",
    "record",
    "recording",
    "replica_seed",
    "separate_replicas",
]

__getattr__ = _lazy.looked_up(
    __name__,
    {
        "Finding": f"{__name__}.rules",
        "KNOWN": f"{__name__}.known",
        "KnownOp": f"{__name__}.known",
        "check_replicas": f"{__name__}.recorder",
        "disabled": f"{__name__}.switch",
        "enable_op_determinism": f"{__name__}.enabling",
        "is_enabled": f"{__name__}.switch",
        "lint_dataset": f"{__name__}.lint",
        "manifest": f"{__name__}.recorder",
        "preflight": f"{__name__}.comparing",
        "record": f"{__name__}.recorder",
        "recording": f"{__name__}.recorder",
        "replica_seed": f"{__name__}.replicas",
        "separate_replicas": f"{__name__}.replicas",
    },
)
