"""Ways to break what the page says of a strategy's attributes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tfdist_kit.conformance.marks import Patch, mutant


@mutant("mwms.attributes.replicas-in-sync", name="replicas-in-sync-counts-this-worker-only")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import distribute_lib

    def other(found: Any) -> Any:
        return property(lambda self: len(self.extended.worker_devices))

    patch(distribute_lib.StrategyBase, "num_replicas_in_sync", other)


@mutant("mwms.attributes.extended", name="v1-extended-is-another-class")
def _(patch: Patch) -> None:
    import tensorflow as tf

    patch(tf.compat.v1.distribute, "StrategyExtended", lambda found: type("Extended", (), {}))


@mutant("mwms.attributes.cluster-resolver-task", name="every-task-is-worker-0")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import collective_all_reduce_strategy as module

    def other(found: Any) -> Any:
        return property(lambda self: SimpleNamespace(task_type="worker", task_id=0))

    patch(module.CollectiveAllReduceStrategy, "cluster_resolver", other)


@mutant("mwms.attributes.experimental-alias", name="alias-is-another-strategy")
def _(patch: Patch) -> None:
    import tensorflow as tf

    experimental = tf.distribute.experimental
    patch(experimental, "MultiWorkerMirroredStrategy", lambda found: tf.distribute.MirroredStrategy)
