"""Where do two runs part? Reads traces, compares, explains, and has runs repeated.

    a command -> launcher, N times, with a recorder in it -> a trace for each rank of each run
        -> manifests -> are they comparable?  -> rows in order -> the first that differs
        -> step, phase, tensors -> cause and cure -> text, JSON, HTML

Nothing here imports TensorFlow. The traces are written by the recorder of
`tfdist_kit.adapters.op_determinism`. The names below are looked up when they are first used.
"""

from typing import TYPE_CHECKING

from tfdist_kit import _lazy

if TYPE_CHECKING:
    from tfdist_kit.determinism.arms import Growth, Tolerance, compare_arms
    from tfdist_kit.determinism.comparing import Divergence, compare
    from tfdist_kit.determinism.explaining import Difference, explain
    from tfdist_kit.determinism.trace import Row, Run, Trace, read_run
    from tfdist_kit.determinism.verifying import Verdict, VerifyRequest, verify
    from tfdist_kit.determinism.workers import Drift, drift

__all__ = [
    "Difference",
    "Divergence",
    "Drift",
    "Growth",
    "Row",
    "Run",
    "Tolerance",
    "Trace",
    "Verdict",
    "VerifyRequest",
    "compare",
    "compare_arms",
    "drift",
    "explain",
    "read_run",
    "verify",
]

__getattr__ = _lazy.looked_up(
    __name__,
    {
        "Difference": "tfdist_kit.determinism.explaining",
        "Divergence": "tfdist_kit.determinism.comparing",
        "Drift": "tfdist_kit.determinism.workers",
        "Growth": "tfdist_kit.determinism.arms",
        "Row": "tfdist_kit.determinism.trace",
        "Run": "tfdist_kit.determinism.trace",
        "Tolerance": "tfdist_kit.determinism.arms",
        "Trace": "tfdist_kit.determinism.trace",
        "Verdict": "tfdist_kit.determinism.verifying",
        "VerifyRequest": "tfdist_kit.determinism.verifying",
        "compare": "tfdist_kit.determinism.comparing",
        "compare_arms": "tfdist_kit.determinism.arms",
        "drift": "tfdist_kit.determinism.workers",
        "explain": "tfdist_kit.determinism.explaining",
        "read_run": "tfdist_kit.determinism.trace",
        "verify": "tfdist_kit.determinism.verifying",
    },
)
