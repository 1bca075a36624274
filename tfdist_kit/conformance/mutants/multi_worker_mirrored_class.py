"""Ways to break what the page says of the class."""

from __future__ import annotations

from typing import Any

from tfdist_kit.conformance.marks import Patch, mutant


@mutant("mwms.class.constructor-v1", name="v1-class-takes-the-resolver-first")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import collective_all_reduce_strategy as module

    def other(found: Any) -> Any:
        def init(self: Any, cluster_resolver: Any = None, communication: Any = None) -> None:
            found(self, communication, cluster_resolver)

        return init

    patch(module.CollectiveAllReduceStrategyV1, "__init__", other)


@mutant("mwms.class.constructor-v2", name="v2-class-wants-a-resolver")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import collective_all_reduce_strategy as module

    def other(found: Any) -> Any:
        def init(self: Any, cluster_resolver: Any, communication_options: Any = None) -> None:
            found(self, cluster_resolver, communication_options)

        return init

    patch(module.CollectiveAllReduceStrategy, "__init__", other)


@mutant("mwms.class.is-a-strategy", name="v1-strategy-is-another-class")
def _(patch: Patch) -> None:
    import tensorflow as tf

    patch(tf.compat.v1.distribute, "Strategy", lambda found: type("Strategy", (), {}))


@mutant("mwms.class.methods-v1", name="v1-has-no-numpy-data-sets")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import distribute_lib

    patch(distribute_lib.StrategyV1, "experimental_make_numpy_dataset", lambda found: None)


@mutant("mwms.class.all-reduce-joins-workers", name="functions-sum-within-the-worker-only")
def _(patch: Patch) -> None:
    import tensorflow as tf
    from tensorflow.python.distribute import distribute_lib

    def other(found: Any) -> Any:
        def all_reduce(self: Any, reduce_op: Any, value: Any, options: Any = None) -> Any:
            if tf.executing_eagerly():
                return found(self, reduce_op, value, options)
            return value

        return all_reduce

    patch(distribute_lib.ReplicaContextBase, "all_reduce", other)


@mutant("mwms.class.three-workers", name="mean-divides-by-two")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import distribute_lib

    def other(found: Any) -> Any:
        def all_reduce(self: Any, reduce_op: Any, value: Any, options: Any = None) -> Any:
            if "mean" in str(reduce_op).lower():
                return found(self, "sum", value, options) / 2
            return found(self, reduce_op, value, options)

        return all_reduce

    patch(distribute_lib.ReplicaContextBase, "all_reduce", other)


@mutant("mwms.class.variables-on-every-device", name="variables-all-on-the-first-device")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import collective_all_reduce_strategy as module

    def other(found: Any) -> Any:
        def create(self: Any, next_creator: Any, **kwargs: Any) -> Any:
            devices = self._devices
            self._devices = devices[:1] * len(devices)
            try:
                return found(self, next_creator, **kwargs)
            finally:
                self._devices = devices

        return create

    patch(module.CollectiveAllReduceExtended, "_create_variable", other)


@mutant("mwms.class.computation-on-every-device", name="replica-ids-begin-anew-on-each-worker")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import collective_all_reduce_strategy as module

    def other(found: Any) -> Any:
        return lambda self, replica_id: replica_id

    patch(module.CollectiveAllReduceExtended, "_get_replica_id_in_sync_group", other)


@mutant("mwms.class.same-initial-values", name="initial-values-are-not-sent-around")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import collective_all_reduce_strategy as module

    def other(found: Any) -> Any:
        return lambda self, replica_id, device, primary_var, **kwargs: kwargs["initial_value"]

    patch(module.CollectiveAllReduceExtended, "_get_variable_creator_initial_value", other)
