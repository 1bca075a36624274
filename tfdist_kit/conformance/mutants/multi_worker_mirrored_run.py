"""Ways to break Strategy.run, its results, and the deprecated experimental_run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfdist_kit.conformance.marks import Patch, mutant


def _runs(patch: Patch, change: Callable[..., Any]) -> None:
    """Have `run` be `change` (of the original first)."""
    from tensorflow.python.distribute import distribute_lib

    def make(original: Any) -> Any:
        def run(self: Any, fn: Any, args: Any = (), kwargs: Any = None, options: Any = None) -> Any:
            return change(original, self, fn, args, kwargs, options)

        return run

    patch(distribute_lib.StrategyBase, "run", make)


@mutant("mwms.run.signature", name="run-has-no-options")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import distribute_lib

    def make(original: Any) -> Any:
        def run(self: Any, fn: Any, args: Any = (), kwargs: Any = None) -> Any:
            return original(self, fn, args, kwargs)

        return run

    patch(distribute_lib.StrategyBase, "run", make)


@mutant("mwms.run.options", name="run-refuses-options")
def _(patch: Patch) -> None:
    def change(original: Any, self: Any, fn: Any, args: Any, kwargs: Any, options: Any) -> Any:
        if options is not None:
            raise ValueError("there are no options")
        return original(self, fn, args, kwargs)

    _runs(patch, change)


@mutant("mwms.run.once-a-replica", name="run-calls-fn-twice-in-each-replica")
def _(patch: Patch) -> None:
    def change(original: Any, self: Any, fn: Any, *others: Any) -> Any:
        original(self, fn, *others)
        return original(self, fn, *others)

    _runs(patch, change)


@mutant("mwms.run.once-a-replica", name="run-calls-fn-in-the-first-replica-alone")
def _(patch: Patch) -> None:
    import tensorflow as tf

    def change(original: Any, self: Any, fn: Any, *others: Any) -> Any:
        size = len(self.extended.worker_devices)

        def first_alone(*args: Any, **kwargs: Any) -> Any:
            context = tf.distribute.get_replica_context()
            is_first = int(context.replica_id_in_sync_group) % size == 0
            return fn(*args, **kwargs) if is_first else None

        return original(self, first_alone, *others)

    _runs(patch, change)


def _hands(patch: Patch, change: Callable[..., Any]) -> None:
    """Have the arguments of a replica be `change` of the original, the replica and all of them."""
    from tensorflow.python.distribute import distribute_utils

    def make(original: Any) -> Any:
        return lambda replica, structured: change(original, replica, structured)

    patch(distribute_utils, "select_replica", make)


@mutant("mwms.run.distributed-arguments", name="every-replica-gets-the-first-ones-component")
def _(patch: Patch) -> None:
    _hands(patch, lambda original, replica, structured: original(0, structured))


@mutant("mwms.run.example-tensor", name="a-constant-goes-to-the-first-replica-alone")
def _(patch: Patch) -> None:
    import tensorflow as tf

    def change(original: Any, replica: int, structured: Any) -> Any:
        selected = original(replica, structured)
        return tf.nest.map_structure(tf.zeros_like, selected) if replica else selected

    _hands(patch, change)


@mutant("mwms.run.nested-arguments", name="run-hands-lists-on-as-tuples")
def _(patch: Patch) -> None:
    def change(original: Any, self: Any, fn: Any, args: Any, *others: Any) -> Any:
        changed = tuple(tuple(each) if isinstance(each, list) else each for each in args)
        return original(self, fn, changed, *others)

    _runs(patch, change)


@mutant("mwms.run.composite-arguments", name="run-makes-sparse-arguments-dense")
def _(patch: Patch) -> None:
    import tensorflow as tf

    def change(original: Any, self: Any, fn: Any, args: Any, *others: Any) -> Any:
        dense = [
            tf.sparse.to_dense(each) if isinstance(each, tf.SparseTensor) else each for each in args
        ]
        return original(self, fn, dense, *others)

    _runs(patch, change)


@mutant("mwms.run.per-replica-results", name="run-gives-what-the-first-replica-returned")
def _(patch: Patch) -> None:
    def change(original: Any, self: Any, *arguments: Any) -> Any:
        return self.experimental_local_results(original(self, *arguments))[0]

    _runs(patch, change)


@mutant("mwms.run.not-in-a-step", name="run-within-a-step-calls-fn")
def _(patch: Patch) -> None:
    import tensorflow as tf

    def change(original: Any, self: Any, fn: Any, *others: Any) -> Any:
        in_a_step = tf.distribute.has_strategy() and tf.distribute.get_replica_context()
        return fn() if in_a_step else original(self, fn, *others)

    _runs(patch, change)


@mutant("mwms.run.example-distributed-values-v2", name="value-function-is-told-of-one-replica")
def _(patch: Patch) -> None:
    import tensorflow as tf
    from tensorflow.python.distribute import collective_all_reduce_strategy

    def make(original: Any) -> Any:
        def distribute(self: Any, value_fn: Any) -> Any:
            def told(context: Any) -> Any:
                replica = context.replica_id_in_sync_group
                return value_fn(tf.distribute.experimental.ValueContext(replica, 1))

            return original(self, told)

        return distribute

    owner = collective_all_reduce_strategy.CollectiveAllReduceExtended
    patch(owner, "_experimental_distribute_values_from_function", make)


def _all_reduces_nothing(patch: Patch) -> None:
    from tensorflow.python.distribute import distribute_lib

    patch(
        distribute_lib.ReplicaContextBase,
        "all_reduce",
        lambda original: lambda self, op, value, options=None: value,
    )


@mutant("mwms.run.example-all-reduce-two-devices", name="all-reduce-in-the-example-does-nothing")
def _(patch: Patch) -> None:
    _all_reduces_nothing(patch)


@mutant("mwms.run.all-reduce-of-a-copy", name="all-reduce-of-a-copy-does-nothing")
def _(patch: Patch) -> None:
    _all_reduces_nothing(patch)


def _local_results(patch: Patch, change: Callable[..., Any]) -> None:
    """Have the local results be `change` of what they are, the strategy and the value."""
    from tensorflow.python.distribute import distribute_lib

    def make(original: Any) -> Any:
        return lambda self, value: change(original(self, value), self, value)

    patch(distribute_lib.StrategyBase, "experimental_local_results", make)


@mutant("mwms.local-results.signature", name="local-results-of-values")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import distribute_lib

    def make(original: Any) -> Any:
        return lambda self, values: original(self, values)

    patch(distribute_lib.StrategyBase, "experimental_local_results", make)


@mutant("mwms.local-results.every-local-replica", name="local-results-in-another-order")
def _(patch: Patch) -> None:
    _local_results(patch, lambda results, self, value: results[::-1])


@mutant("mwms.local-results.this-worker-alone", name="local-results-of-all-workers")
def _(patch: Patch) -> None:
    def change(results: Any, self: Any, value: Any) -> Any:
        [own] = results
        return own, self.reduce("SUM", value, axis=None) - own

    _local_results(patch, change)


@mutant("mwms.local-results.plain-value", name="local-results-repeat-a-plain-value")
def _(patch: Patch) -> None:
    _local_results(patch, lambda results, self, value: results * 2)


def _experimental_runs(patch: Patch, change: Callable[..., Any]) -> None:
    """Have `experimental_run` be `change` (of the original first)."""
    from tensorflow.python.distribute import distribute_lib

    def make(original: Any) -> Any:
        return lambda self, fn, input_iterator=None: change(original, self, fn, input_iterator)

    patch(distribute_lib.StrategyV1, "experimental_run", make)


@mutant("mwms.experimental-run.signature", name="experimental-run-has-to-be-given-an-iterator")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import distribute_lib

    def make(original: Any) -> Any:
        return lambda self, fn, input_iterator: original(self, fn, input_iterator)

    patch(distribute_lib.StrategyV1, "experimental_run", make)


@mutant("mwms.experimental-run.eager", name="experimental-run-runs-nothing")
def _(patch: Patch) -> None:
    _experimental_runs(patch, lambda original, self, fn, iterator: None)


@mutant("mwms.experimental-run.graph", name="experimental-run-builds-for-one-replica")
def _(patch: Patch) -> None:
    def change(original: Any, self: Any, *arguments: Any) -> Any:
        return self.experimental_local_results(original(self, *arguments))[0]

    _experimental_runs(patch, change)


@mutant("mwms.experimental-run.one-input-a-replica", name="experimental-run-takes-two-batches")
def _(patch: Patch) -> None:
    def change(original: Any, self: Any, fn: Any, iterator: Any) -> Any:
        iterator.get_next()
        return original(self, fn, iterator)

    _experimental_runs(patch, change)


@mutant("mwms.experimental-run.replica-context", name="every-replica-has-the-id-0")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import distribute_lib

    patch(
        distribute_lib.ReplicaContextBase,
        "replica_id_in_sync_group",
        lambda original: property(lambda self: 0),
    )
