"""Ways to break what the page says of the class's arguments."""

from __future__ import annotations

from typing import Any

from tfdist_kit.conformance.marks import Patch, mutant


@mutant("mwms.args.communication-is-a-hint", name="ring-is-not-to-be-had")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import collective_all_reduce_strategy as module

    def other(found: Any) -> Any:
        def init(self: Any, communication: Any, cluster_resolver: Any = None) -> None:
            if "RING" in str(communication):
                raise ValueError("there is no ring")
            found(self, communication, cluster_resolver)

        return init

    patch(module.CollectiveAllReduceStrategyV1, "__init__", other)


@mutant("mwms.args.communication-unknown", name="unknown-communication-is-auto")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import collective_util

    def other(found: Any) -> Any:
        return classmethod(lambda cls, value: cls.AUTO)

    patch(collective_util.CommunicationImplementation, "_missing_", other)


@mutant("mwms.args.cluster-resolver-type", name="cluster-resolver-is-not-looked-at")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import collective_all_reduce_strategy as module

    patch(module.cluster_resolver_lib, "ClusterResolver", lambda found: object)


@mutant("mwms.args.cluster-resolver-default", name="default-resolver-is-another")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import collective_all_reduce_strategy as module

    def other(found: Any) -> Any:
        return type("AnotherResolver", (found,), {})

    patch(module.tfconfig_cluster_resolver, "TFConfigClusterResolver", other)


@mutant("mwms.args.own-cluster-resolver", name="own-resolver-is-forgotten")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import collective_all_reduce_strategy as module

    def other(found: Any) -> Any:
        def init(self: Any, cluster_resolver: Any = None, **options: Any) -> None:
            found(self, None, **options)

        return init

    patch(module.CollectiveAllReduceStrategy, "__init__", other)


@mutant("mwms.args.resolver-without-task", name="no-task-is-worker-0")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute.cluster_resolver import cluster_resolver

    owner = cluster_resolver.SimpleClusterResolver
    patch(owner, "task_type", lambda found: _or(found, "worker"))
    patch(owner, "task_id", lambda found: _or(found, 0))


def _or(found: Any, default: Any) -> Any:
    def value(self: Any) -> Any:
        told = found.fget(self)
        return default if told is None else told

    return property(value, found.fset)
