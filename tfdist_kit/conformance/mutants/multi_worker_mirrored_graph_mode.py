"""Ways to break graph mode, while eager mode stays as it is."""

from __future__ import annotations

from typing import Any

from tfdist_kit.conformance.marks import Patch, mutant


@mutant("mwms.graph-mode.alone", name="reduce-counts-twice-in-a-graph")
def _reduce_counts_twice(patch: Patch) -> None:
    from tensorflow.python.distribute import distribute_lib

    _in_a_graph(
        patch,
        distribute_lib.StrategyBase,
        "reduce",
        lambda original: lambda *args, **kwargs: 2 * original(*args, **kwargs),
    )


@mutant(
    "mwms.graph-mode.servers",
    name="all-reduce-in-a-graph-forgets-the-others",
    also=("mwms.graph-mode.gradients-are-summed", "mwms.graph-mode.monitored-session"),
)
def _all_reduce_forgets_the_others(patch: Patch) -> None:
    import tensorflow as tf
    from tensorflow.python.distribute import cross_device_utils

    _in_a_graph(
        patch,
        cross_device_utils.CollectiveReplicaLauncher,
        "all_reduce",
        lambda _: lambda self, tensor, *args, **kwargs: tf.identity(tensor),
    )


@mutant(
    "mwms.graph-mode.same-initial-values", name="variables-of-a-graph-start-with-their-own-values"
)
def _variables_start_with_their_own_values(patch: Patch) -> None:
    from tensorflow.python.distribute import collective_all_reduce_strategy as strategy

    def make(_: Any) -> Any:
        return lambda self, replica_id, device, primary_var, **kwargs: kwargs["initial_value"]

    _in_a_graph(
        patch, strategy.CollectiveAllReduceExtended, "_get_variable_creator_initial_value", make
    )


@mutant(
    "mwms.graph-mode.gradients-are-summed",
    name="gradients-of-a-graph-are-averaged",
    also=("mwms.graph-mode.monitored-session",),
)
def _gradients_are_averaged(patch: Patch) -> None:
    from tensorflow.python.training import optimizer

    def make(original: Any) -> Any:
        def apply(self: Any, distribution: Any, pairs: Any, *args: Any, **kwargs: Any) -> Any:
            averaged = [(gradient / 2.0, variable) for gradient, variable in pairs]
            return original(self, distribution, averaged, *args, **kwargs)

        return apply

    _in_a_graph(patch, optimizer.Optimizer, "_distributed_apply", make)


def _in_a_graph(patch: Patch, owner: Any, attribute: str, make: Any) -> None:
    """Replace a method where no eager mode is on."""
    import tensorflow as tf

    def choosing(original: Any) -> Any:
        other = make(original)

        def method(*args: Any, **kwargs: Any) -> Any:
            eager = tf.compat.v1.executing_eagerly_outside_functions()
            return (original if eager else other)(*args, **kwargs)

        return method

    patch(owner, attribute, choosing)
