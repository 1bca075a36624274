"""TensorFlow's TPUEmbedding: on a TPU its own, anywhere else a host mode with the same step.

tpu_embedding -> under TPUStrategy: TensorFlow's own class (real.py)
              -> else: HostTPUEmbedding, which enqueues, looks up and updates by itself (host.py)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfdist_kit import _lazy

if TYPE_CHECKING:
    from tfdist_kit.adapters.tpu_embedding.host import HostTPUEmbedding
    from tfdist_kit.adapters.tpu_embedding.making import tpu_embedding
    from tfdist_kit.adapters.tpu_embedding.rates import adam_bias_correction

__all__ = [
    "HostTPUEmbedding",
    "adam_bias_correction",
    "tpu_embedding",
]

__getattr__ = _lazy.looked_up(
    __name__,
    {
        "HostTPUEmbedding": f"{__name__}.host",
        "adam_bias_correction": f"{__name__}.rates",
        "tpu_embedding": f"{__name__}.making",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
