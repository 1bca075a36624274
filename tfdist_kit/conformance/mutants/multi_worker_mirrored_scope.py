"""Ways to break what the page says of scope(): contexts and variables."""

from __future__ import annotations

from typing import Any

from tfdist_kit.conformance.marks import Patch, mutant


def _left_in_force(patch: Patch) -> None:
    """Have a strategy be in force from when it is made, without its scope."""
    import tensorflow as tf
    from tensorflow.python.distribute import collective_all_reduce_strategy as module

    def other(found: Any) -> Any:
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            found(self, *args, **kwargs)
            tf.distribute.experimental_set_strategy(self)

        return init

    patch(module.CollectiveAllReduceStrategy, "__init__", other)


@mutant("mwms.scope.variables-are-mirrored", name="v1-variables-are-plain")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import collective_all_reduce_strategy as module

    def other(found: Any) -> Any:
        def create(self: Any, next_creator: Any, **kwargs: Any) -> Any:
            if isinstance(self._container_strategy(), module.CollectiveAllReduceStrategyV1):
                return next_creator(**kwargs)
            return found(self, next_creator, **kwargs)

        return create

    patch(module.CollectiveAllReduceExtended, "_create_variable", other)


@mutant(
    "mwms.scope.variables-outside-are-not",
    name="a-strategy-is-in-force-at-once",
    also=("mwms.scope.variables-made-in-a-function",),
)
def _(patch: Patch) -> None:
    _left_in_force(patch)


@mutant(
    "mwms.scope.variables-made-in-a-function",
    name="functions-are-traced-in-the-last-scope",
    also=("mwms.scope.variables-outside-are-not",),
)
def _(patch: Patch) -> None:
    _left_in_force(patch)


@mutant("mwms.scope.example", name="mirrored-variables-are-plain")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import collective_all_reduce_strategy as ours
    from tensorflow.python.distribute import mirrored_strategy as module

    def other(found: Any) -> Any:
        def create(self: Any, next_creator: Any, **kwargs: Any) -> Any:
            if isinstance(self, ours.CollectiveAllReduceExtended):
                return found(self, next_creator, **kwargs)
            return next_creator(**kwargs)

        return create

    patch(module.MirroredExtended, "_create_variable", other)


@mutant("mwms.scope.creation-is-intercepted", name="get-variable-asks-nobody")
def _(patch: Patch) -> None:
    import tensorflow as tf
    from tensorflow.python.ops import resource_variable_ops

    def other(found: Any) -> Any:
        return lambda name, shape: resource_variable_ops.ResourceVariable(tf.zeros(shape))

    patch(tf.compat.v1, "get_variable", other)


@mutant("mwms.scope.current-strategy", name="scope-leaves-the-default-strategy")
def _(patch: Patch) -> None:
    import tensorflow as tf
    from tensorflow.python.distribute import distribute_lib

    def other(found: Any) -> Any:
        return lambda: distribute_lib._get_default_strategy()

    patch(tf.distribute, "get_strategy", other)


@mutant("mwms.scope.cross-replica-context", name="scope-is-a-replica-context")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import distribute_lib

    def other(found: Any) -> Any:
        def init(self: Any, strategy: Any) -> None:
            context = distribute_lib._get_default_replica_context()
            distribute_lib._ThreadMode.__init__(self, strategy, None, context)

        return init

    patch(distribute_lib._CrossReplicaThreadMode, "__init__", other)


@mutant("mwms.scope.nested", name="a-scope-is-entered-once")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import distribute_lib

    def other(found: Any) -> Any:
        def scope(self: Any) -> Any:
            if distribute_lib.has_strategy():
                raise RuntimeError("it is in scope already")
            return found(self)

        return scope

    patch(distribute_lib.StrategyBase, "scope", other)


@mutant("mwms.scope.of-another-strategy", name="strategies-are-mixed")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import distribute_lib

    name = "_require_cross_replica_or_default_context_extended"
    patch(distribute_lib, name, lambda found: lambda extended, error_message=None: None)


@mutant("mwms.scope.does-not-distribute", name="run-calls-for-one-replica")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import distribute_lib

    def other(found: Any) -> Any:
        def run(self: Any, fn: Any, args: Any = (), kwargs: Any = None, options: Any = None) -> Any:
            return fn(*args, **(kwargs or {}))

        return run

    patch(distribute_lib.StrategyBase, "run", other)


@mutant("mwms.scope.variables-made-in-run", name="variables-of-a-step-are-plain")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import collective_all_reduce_strategy as module
    from tensorflow.python.distribute import distribute_lib

    steps: list[Any] = []

    def counted(found: Any) -> Any:
        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            steps.append(None)
            try:
                return found(self, *args, **kwargs)
            finally:
                steps.pop()

        return run

    def plain(found: Any) -> Any:
        def create(self: Any, next_creator: Any, **kwargs: Any) -> Any:
            if steps:
                return next_creator(**kwargs)
            return found(self, next_creator, **kwargs)

        return create

    patch(distribute_lib.StrategyBase, "run", counted)
    patch(module.CollectiveAllReduceExtended, "_create_variable", plain)


@mutant("mwms.scope.restoring-makes-variables", name="mirrored-variables-are-not-restored")
def _(patch: Patch) -> None:
    import tensorflow as tf
    from tensorflow.python.distribute import values

    def other(found: Any) -> Any:
        return lambda self, restored_tensors, restored_shapes: tf.no_op()

    patch(values._MirroredSaveable, "restore", other)


@mutant("mwms.scope.variables-remember-their-strategy", name="outside-one-copy-is-assigned")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import distribute_lib, values

    def other(found: Any) -> Any:
        def assign(self: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
            if distribute_lib.has_strategy():
                return found(self, value, *args, **kwargs)
            return self.values[0].assign(value)

        return assign

    patch(values.DistributedVariable, "assign", other)


@mutant("mwms.scope.entered-by-run-and-reduce", name="reduce-wants-to-be-in-scope")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import distribute_lib

    def other(found: Any) -> Any:
        def reduce(self: Any, reduce_op: Any, value: Any, axis: Any) -> Any:
            distribute_lib._assert_strategy(self)
            return found(self, reduce_op, value, axis)

        return reduce

    patch(distribute_lib.StrategyBase, "reduce", other)


@mutant("mwms.scope.aggregated-assignment", name="mean-is-not-taken-before-assignment")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import values_util

    def other(found: Any) -> Any:
        def apply(strategy: Any, value: Any, aggregation: Any, destinations: Any) -> Any:
            if "MEAN" in str(aggregation):
                return value
            return found(strategy, value, aggregation, destinations)

        return apply

    patch(values_util, "apply_aggregation", other)


@mutant("mwms.scope.first-replica-assignment", name="the-last-replica-is-assigned")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import values_util

    def other(found: Any) -> Any:
        def apply(strategy: Any, value: Any, aggregation: Any, destinations: Any) -> Any:
            if "FIRST" in str(aggregation):
                return strategy.experimental_local_results(value)[-1]
            return found(strategy, value, aggregation, destinations)

        return apply

    patch(values_util, "apply_aggregation", other)
