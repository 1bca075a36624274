"""TensorFlow's TPUEmbedding: on a TPU its own, anywhere else a host mode with the same step.

tpu_embedding -> under TPUStrategy: TensorFlow's own class (real.py)
              -> else: HostTPUEmbedding, which enqueues, looks up and updates by itself (host.py)
check_step -> the real TPU step, traced over a made-up topology -> what is wrong with it
restore, check_restored, serving -> the same tables, from and for anywhere
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfdist_kit import _lazy

if TYPE_CHECKING:
    from tfdist_kit.adapters.tpu_embedding.host import HostTPUEmbedding
    from tfdist_kit.adapters.tpu_embedding.making import tpu_embedding

__all__ = ["HostTPUEmbedding", "tpu_embedding"]

__getattr__ = _lazy.looked_up(
    __name__,
    {
        "HostTPUEmbedding": f"{__name__}.host",
        "tpu_embedding": f"{__name__}.making",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
