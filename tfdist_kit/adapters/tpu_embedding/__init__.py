"""TensorFlow's TPUEmbedding: on a TPU its own, anywhere else a host mode with the same step.

tpu_embedding -> under TPUStrategy: TensorFlow's own class (real.py)
              -> else: HostTPUEmbedding, which enqueues, looks up and updates by itself (host.py)
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

__all__ = [
    "HostTPUEmbedding",
    "adam_bias_correction",
    "assert_checkpoint_matches",
    "export",
    "restore",
    "serving_lookup",
    "tpu_embedding",
]

__getattr__ = _lazy.looked_up(
    __name__,
    {
        "HostTPUEmbedding": f"{__name__}.host",
        "adam_bias_correction": f"{__name__}.rates",
        "assert_checkpoint_matches": f"{__name__}.restoring",
        "export": f"{__name__}.serving",
        "restore": f"{__name__}.restoring",
        "serving_lookup": f"{__name__}.serving",
        "tpu_embedding": f"{__name__}.making",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
