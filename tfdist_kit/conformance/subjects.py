"""What the checks are about: TensorFlow's own classes, or the kit's adapters over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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

            return tfdist_kit.multi_worker_mirrored(**arguments)
        import tensorflow as tf

        _meet()
        return tf.distribute.MultiWorkerMirroredStrategy(**arguments)

    def make_strategy_v1(self, **arguments: Any) -> Any:
        """The MultiWorkerMirroredStrategy of ``tf.compat.v1``.

        Args:
            arguments: Those of TensorFlow's class.
        """
        if self.kind == ADAPTER:
            import tfdist_kit

            return tfdist_kit.multi_worker_mirrored(api="compat.v1", **arguments)
        import tensorflow as tf

        _meet()
        return tf.compat.v1.distribute.experimental.MultiWorkerMirroredStrategy(**arguments)


def _meet() -> None:
    """Have the workers make a further strategy together, from the first check of a process on.

    Checks share processes, and TensorFlow loses what a quicker worker has sent by then.
    """
    from tfdist_kit.adapters.remade import meet_when_remade

    meet_when_remade()
