"""What the checks are about: TensorFlow's own classes, or the kit's adapters over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

ALONE: Any = {"on_single_worker": "allow"}
"""What the kit refuses unless told otherwise: a TF_CONFIG under which a worker trains alone."""
STOCK, ADAPTER = SUBJECTS = ("stock", "adapter")


@dataclass(frozen=True)
class Subject:
    """Makes what a check looks at; the value of the fixture ``subject``.

    Attributes:
        kind: ``stock`` or ``adapter``.
    """

    kind: str = STOCK

    def make_strategy(self, **arguments: Any) -> Any:
        """A MultiWorkerMirroredStrategy.

        Args:
            arguments: Those of TensorFlow's class.
        """
        if self.kind == ADAPTER:
            import tfdist_kit

            return tfdist_kit.multi_worker_mirrored(**ALONE, **arguments)
        import tensorflow as tf

        return tf.distribute.MultiWorkerMirroredStrategy(**arguments)

    def make_strategy_v1(self, **arguments: Any) -> Any:
        """The MultiWorkerMirroredStrategy of ``tf.compat.v1``.

        Args:
            arguments: Those of TensorFlow's class.
        """
        if self.kind == ADAPTER:
            import tfdist_kit

            return tfdist_kit.multi_worker_mirrored(api="compat.v1", **ALONE, **arguments)
        import tensorflow as tf

        return tf.compat.v1.distribute.experimental.MultiWorkerMirroredStrategy(**arguments)
