"""TensorFlow's TPUEmbedding: on a TPU its own, anywhere else a host mode with the same step.

tpu_embedding -> under TPUStrategy: TensorFlow's own class (real.py)
              -> else: HostTPUEmbedding, which enqueues, looks up and updates by itself (host.py)
check_step -> the real TPU step, traced over a made-up topology -> what is wrong with it
restore, assert_checkpoint_matches -> the same tables from anywhere, whole or not at all
serving_lookup, export -> lookups from them without a step, and as a SavedModel
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfdist_kit import _lazy

if TYPE_CHECKING:
    from tfdist_kit.adapters.tpu_embedding.host import HostTPUEmbedding
    from tfdist_kit.adapters.tpu_embedding.making import tpu_embedding
    from tfdist_kit.adapters.tpu_embedding.rates import adam_bias_correction
    from tfdist_kit.adapters.tpu_embedding.restoring import assert_checkpoint_matches, restore
    from tfdist_kit.adapters.tpu_embedding.serving import export, serving_lookup
    from tfdist_kit.adapters.tpu_embedding.tracing.arguments import per_replica
    from tfdist_kit.adapters.tpu_embedding.tracing.checking import check_step
    from tfdist_kit.adapters.tpu_embedding.tracing.findings import Finding
    from tfdist_kit.adapters.tpu_embedding.tracing.report import StepReport, Table, TracedStep
    from tfdist_kit.adapters.tpu_embedding.tracing.topology import made_up_tpu

__all__ = [
    "Finding",
    "HostTPUEmbedding",
    "StepReport",
    "Table",
    "TracedStep",
    "adam_bias_correction",
    "assert_checkpoint_matches",
    "check_step",
    "export",
    "made_up_tpu",
    "per_replica",
    "restore",
    "serving_lookup",
    "tpu_embedding",
]

__getattr__ = _lazy.looked_up(
    __name__,
    {
        "Finding": f"{__name__}.tracing.findings",
        "HostTPUEmbedding": f"{__name__}.host",
        "StepReport": f"{__name__}.tracing.report",
        "Table": f"{__name__}.tracing.report",
        "TracedStep": f"{__name__}.tracing.report",
        "adam_bias_correction": f"{__name__}.rates",
        "assert_checkpoint_matches": f"{__name__}.restoring",
        "check_step": f"{__name__}.tracing.checking",
        "export": f"{__name__}.serving",
        "made_up_tpu": f"{__name__}.tracing.topology",
        "per_replica": f"{__name__}.tracing.arguments",
        "restore": f"{__name__}.restoring",
        "serving_lookup": f"{__name__}.serving",
        "tpu_embedding": f"{__name__}.making",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
