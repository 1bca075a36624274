"""Ways to break what workers do together, and the settings of a session for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfdist_kit.conformance.marks import Patch, mutant


def _reduces(patch: Patch, change: Callable[..., Any]) -> None:
    """Have the reduction over replicas be `change` (of the original first)."""
    from tensorflow.python.distribute import distribute_lib

    def make(original: Any) -> Any:
        return lambda self, op, value: change(original, self, op, value)

    patch(distribute_lib.StrategyExtendedV2, "_reduce", make)


@mutant("mwms.collectives.all-must-take-part", name="collective-gives-an-earlier-result")
def _(patch: Patch) -> None:
    earlier: list[Any] = []

    def change(original: Any, self: Any, op: Any, value: Any) -> Any:
        if not earlier:
            earlier.append(original(self, op, value))
        return earlier[0]

    _reduces(patch, change)


@mutant("mwms.collectives.same-order", name="collectives-find-their-own-partners")
def _(patch: Patch) -> None:
    _reduces(patch, lambda original, self, op, value: value * self._num_workers)


@mutant("mwms.collectives.dispatch-on-task", name="assign-gives-all-workers-one-value")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import values

    def make(original: Any) -> Any:
        def assign(self: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
            return original(self, 0.0 * value, *args, **kwargs)

        return assign

    patch(values.DistributedVariable, "assign", make)


def _reads(patch: Patch, read: Callable[[Any], Any]) -> None:
    """Have an ON_READ variable be read so in the cross-replica context."""
    from tensorflow.python.distribute import values

    patch(values.SyncOnReadVariable, "_get_cross_replica", lambda original: read)


@mutant("mwms.collectives.on-read-all-reduces", name="on-read-gives-the-first-local-value")
def _(patch: Patch) -> None:
    _reads(patch, lambda variable: variable._get_replica(0))


@mutant("mwms.collectives.on-read-alone-blocks", name="on-read-knows-the-sum-beforehand")
def _(patch: Patch) -> None:
    import tensorflow as tf

    _reads(patch, lambda variable: tf.constant(3.0))


@mutant("mwms.collectives.lost-worker-raises", name="collective-goes-on-without-a-lost-worker")
def _(patch: Patch) -> None:
    import tensorflow as tf

    def change(original: Any, self: Any, op: Any, value: Any) -> Any:
        try:
            return original(self, op, value)
        except tf.errors.OpError:
            return value

    _reduces(patch, change)


def _updates(patch: Patch, change: Callable[..., None]) -> None:
    """Have `change` do something to the given ConfigProto, the updated one and the strategy's."""
    from tensorflow.python.distribute import collective_all_reduce_strategy

    def make(original: Any) -> Any:
        def update(self: Any, config_proto: Any) -> Any:
            updated = original(self, config_proto)
            change(config_proto, updated, self)
            return updated

        return update

    owner = collective_all_reduce_strategy.CollectiveAllReduceExtended
    patch(owner, "_update_config_proto", make)


@mutant("mwms.config-proto.signature", name="update-config-proto-of-a-config")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import distribute_lib

    def make(original: Any) -> Any:
        return lambda self, config: original(self, config)

    patch(distribute_lib.StrategyV1, "update_config_proto", make)


@mutant("mwms.config-proto.is-a-copy", name="update-config-proto-changes-what-it-is-given")
def _(patch: Patch) -> None:
    _updates(patch, lambda given, updated, self: given.CopyFrom(updated))


@mutant("mwms.config-proto.is-a-copy", name="update-config-proto-forgets-what-was-set")
def _(patch: Patch) -> None:
    _updates(patch, lambda given, updated, self: updated.ClearField("gpu_options"))


@mutant("mwms.config-proto.what-is-set", name="update-config-proto-sets-no-device-filters")
def _(patch: Patch) -> None:
    _updates(patch, lambda given, updated, self: updated.ClearField("device_filters"))


@mutant("mwms.config-proto.what-is-set", name="every-worker-leads-its-own-collectives")
def _(patch: Patch) -> None:
    def change(given: Any, updated: Any, self: Any) -> None:
        leader = f"/job:worker/replica:0/task:{self._id_in_cluster}"
        updated.experimental.collective_group_leader = leader

    _updates(patch, change)
