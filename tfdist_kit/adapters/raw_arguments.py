"""An all-reduce of what a step was given, as it came, inside a ``tf.function``.

    ReplicaContext.all_reduce, all_gather -> a tensor without a device is copied -> the real

In a graph, an argument or a dataset's element lies on no device. With one replica in a worker,
TensorFlow takes the device of the value for where the result goes, and refuses the empty one:
"destinations can not be empty". A copy that the replica makes lies on its device.
"""

from __future__ import annotations

from typing import Any

from tfdist_kit.adapters._private import private

_MODULE, _CONTEXT = "tensorflow.python.distribute.mirrored_run", "_MirroredReplicaContext"


def reduce_raw_arguments() -> None:
    """Have replicas reduce and gather their arguments as they came.

    It acts on every mirrored strategy of this process, TensorFlow's own as well; calling it again
    does nothing.

    Raises:
        UnsupportedVersionError: TensorFlow's internals are not as expected.
    """
    owner = private(_MODULE, _CONTEXT)
    reduce_, gather = (private(_MODULE, _CONTEXT, name) for name in ("all_reduce", "all_gather"))
    if hasattr(reduce_, "tfdist_original"):
        return

    def all_reduce(self: Any, reduce_op: Any, value: Any, options: Any = None) -> Any:
        return reduce_(self, reduce_op, _on_a_device(value), options)

    def all_gather(self: Any, value: Any, axis: Any, options: Any = None) -> Any:
        return gather(self, _on_a_device(value), axis, options)

    all_reduce.tfdist_original = reduce_  # type: ignore[attr-defined]
    owner.all_reduce, owner.all_gather = all_reduce, all_gather


def _on_a_device(value: Any) -> Any:
    import tensorflow as tf

    def copied(each: Any) -> Any:
        return tf.identity(each) if isinstance(each, tf.Tensor) and not each.device else each

    return tf.nest.map_structure(copied, value)
