"""Ways to break Strategy.reduce, and what else reduces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfdist_kit.conformance.marks import Patch, mutant


def _reduces(patch: Patch, change: Callable[..., Any]) -> None:
    """Have the reduction over replicas, whatever the axis, be `change` (of the original first)."""
    from tensorflow.python.distribute import distribute_lib

    def make(original: Any) -> Any:
        return lambda self, op, value: change(original, self, op, value)

    patch(distribute_lib.StrategyExtendedV2, "_reduce", make)


def _is_sum(op: Any) -> bool:
    return bool(op.value == "SUM")


@mutant("mwms.reduce.signature", name="reduce-has-to-be-given-an-axis")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import distribute_lib

    def make(original: Any) -> Any:
        def reduce(self: Any, reduce_op: Any, value: Any, axis: Any) -> Any:
            return original(self, reduce_op, value, axis)

        return reduce

    patch(distribute_lib.StrategyV1, "reduce", make)


@mutant("mwms.reduce.sum-over-workers", name="sum-of-the-own-replicas-alone")
def _(patch: Patch) -> None:
    _reduces(
        patch,
        lambda original, self, op, value: (
            self._local_results(value)[0] if _is_sum(op) else original(self, op, value)
        ),
    )


@mutant("mwms.reduce.sum-over-workers", name="sum-for-the-first-worker-alone")
def _(patch: Patch) -> None:
    def change(original: Any, self: Any, op: Any, value: Any) -> Any:
        total = original(self, op, value)
        return total if self._id_in_cluster == 0 else self._local_results(value)[0]

    _reduces(patch, change)


@mutant("mwms.reduce.mean-over-workers", name="mean-is-not-divided")
def _(patch: Patch) -> None:
    _reduces(
        patch,
        lambda original, self, op, value: original(self, type(op).SUM, value),
    )


@mutant("mwms.reduce.over-local-replicas", name="reduce-forgets-all-but-the-first-local-replica")
def _(patch: Patch) -> None:
    _reduces(
        patch,
        lambda original, self, op, value: original(self, op, self._local_results(value)[0]),
    )


def _onto_the_second_cpu(patch: Patch) -> None:
    import tensorflow as tf

    def change(original: Any, self: Any, op: Any, value: Any) -> Any:
        with tf.device("CPU:1"):
            return tf.identity(original(self, op, value))

    _reduces(patch, change)


@mutant("mwms.reduce.on-the-workers-cpu", name="result-of-reduce-elsewhere")
def _(patch: Patch) -> None:
    _onto_the_second_cpu(patch)


@mutant("mwms.reduce.example-devices", name="total-of-the-example-elsewhere")
def _(patch: Patch) -> None:
    _onto_the_second_cpu(patch)


@mutant("mwms.reduce.example-two-devices", name="total-of-the-example-is-of-one-device")
def _(patch: Patch) -> None:
    _reduces(patch, lambda original, self, op, value: self._local_results(value)[0])


@mutant("mwms.reduce.op-by-name", name="names-of-operations-in-upper-case-alone")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import distribute_lib

    def make(original: Any) -> Any:
        def reduce(self: Any, reduce_op: Any, value: Any, axis: Any) -> Any:
            if isinstance(reduce_op, str) and not reduce_op.isupper():
                raise ValueError(f"{reduce_op!r} is not a valid ReduceOp")
            return original(self, reduce_op, value, axis)

        return reduce

    patch(distribute_lib.StrategyBase, "reduce", make)


@mutant("mwms.reduce.axis-none", name="reduce-without-an-axis-sums-elements-too")
def _(patch: Patch) -> None:
    import tensorflow as tf

    _reduces(patch, lambda original, self, op, value: tf.reduce_sum(original(self, op, value)))


@mutant("mwms.reduce.axis-zero", name="reduce-ignores-its-axis")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import distribute_lib

    patch(
        distribute_lib.StrategyBase,
        "reduce",
        lambda original: lambda self, op, value, axis: original(self, op, value, None),
    )


@mutant("mwms.reduce.partial-batch-needs-an-axis", name="reduce-cuts-what-is-too-long")
def _(patch: Patch) -> None:
    _reduces(patch, lambda original, self, op, value: original(self, op, value[:2]))


@mutant("mwms.reduce.partial-batch-with-an-axis", name="mean-along-an-axis-is-of-means")
def _(patch: Patch) -> None:
    import tensorflow as tf
    from tensorflow.python.distribute import distribute_lib

    def make(original: Any) -> Any:
        def reduce(self: Any, op: Any, value: Any, axis: Any) -> Any:
            if axis is None or _is_sum(op):
                return original(self, op, value, axis)
            means = self.run(lambda part: tf.reduce_mean(part, axis), args=(value,))
            return original(self, op, means, None)

        return reduce

    patch(distribute_lib.StrategyBase, "reduce", make)


@mutant("mwms.reduce.mean-of-means", name="mean-knows-the-sizes-of-the-parts")
def _(patch: Patch) -> None:
    def change(original: Any, self: Any, op: Any, value: Any) -> Any:
        sizes = (4.0, 2.0)
        return original(self, type(op).SUM, value * sizes[self._id_in_cluster]) / sum(sizes)

    _reduces(patch, change)


@mutant("mwms.reduce.axis-of-a-scalar", name="axis-of-a-scalar-is-ignored")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import distribute_lib

    def make(original: Any) -> Any:
        def reduce(self: Any, op: Any, value: Any, axis: Any) -> Any:
            return original(self, op, value, axis if value.shape.rank else None)

        return reduce

    patch(distribute_lib.StrategyBase, "reduce", make)


@mutant("mwms.reduce.in-a-function", name="reduce-forgets-the-others-in-a-function")
def _(patch: Patch) -> None:
    import tensorflow as tf

    _reduces(
        patch,
        lambda original, self, op, value: (
            original(self, op, value) if tf.executing_eagerly() else self._local_results(value)[0]
        ),
    )


@mutant("mwms.reduce.not-in-a-step", name="reduce-within-a-step-gives-the-value")
def _(patch: Patch) -> None:
    import tensorflow as tf
    from tensorflow.python.distribute import distribute_lib

    def make(original: Any) -> Any:
        def reduce(self: Any, op: Any, value: Any, axis: Any) -> Any:
            in_a_step = tf.distribute.has_strategy() and tf.distribute.get_replica_context()
            return value if in_a_step else original(self, op, value, axis)

        return reduce

    patch(distribute_lib.StrategyBase, "reduce", make)


@mutant("mwms.reduce.all-reduce-of-a-structure", name="all-reduce-of-the-first-tensor-alone")
def _(patch: Patch) -> None:
    import tensorflow as tf
    from tensorflow.python.distribute import distribute_lib

    def make(original: Any) -> Any:
        def all_reduce(self: Any, op: Any, value: Any, options: Any = None) -> Any:
            first, *_ = tf.nest.flatten(original(self, op, value, options))
            return tf.nest.pack_sequence_as(value, [first, *tf.nest.flatten(value)[1:]])

        return all_reduce

    patch(distribute_lib.ReplicaContextBase, "all_reduce", make)


@mutant("mwms.reduce.reduce-to", name="reduce-to-the-cpu-whatever-it-is-told")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import distribute_lib

    def make(original: Any) -> Any:
        def reduce_to(self: Any, op: Any, value: Any, destinations: Any) -> Any:
            return original(self, op, value, "/device:CPU:0")

        return reduce_to

    patch(distribute_lib.StrategyExtendedV2, "reduce_to", make)


@mutant("mwms.reduce.batch-reduce-to", name="batch-reduce-to-the-first-destination-alone")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import distribute_lib

    def make(original: Any) -> Any:
        def batch_reduce_to(self: Any, op: Any, pairs: Any) -> Any:
            _, first = pairs[0]
            return original(self, op, [(value, first) for value, _ in pairs])

        return batch_reduce_to

    patch(distribute_lib.StrategyExtendedV2, "batch_reduce_to", make)
