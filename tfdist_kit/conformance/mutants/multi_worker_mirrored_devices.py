"""Ways to break what the page says of devices."""

from __future__ import annotations

from typing import Any

from tfdist_kit.conformance.marks import Patch, mutant


def _use(patch: Patch, kind: str, count: int) -> None:
    """Have every worker use `count` devices of a kind, whatever there is."""
    from tensorflow.python.distribute import collective_all_reduce_strategy as module

    def other(found: Any) -> Any:
        def devices(self: Any, resolver: Any, worker: str) -> Any:
            return tuple(f"{worker}/device:{kind}:{index}" for index in range(count)), kind

        return devices

    patch(module.CollectiveAllReduceExtended, "_initialize_local_devices", other)


@mutant("mwms.devices.resolver-counts-gpus", name="gpus-of-the-resolver-are-ignored")
def _(patch: Patch) -> None:
    _use(patch, "CPU", 1)


@mutant("mwms.devices.one-replica-per-gpu", name="replicas-stay-on-the-cpu")
def _(patch: Patch) -> None:
    _use(patch, "CPU", 1)


@mutant("mwms.devices.cpu-if-no-gpu", name="no-gpu-is-one-gpu")
def _(patch: Patch) -> None:
    _use(patch, "GPU", 1)


@mutant("mwms.devices.one-replica-on-cpu", name="each-logical-cpu-is-a-replica")
def _(patch: Patch) -> None:
    _use(patch, "CPU", 2)


@mutant("mwms.devices.not-for-tpu", name="a-tpu-is-not-looked-for")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import collective_all_reduce_strategy as module

    resolvers = module.tpu_cluster_resolver
    patch(resolvers, "initialize_tpu_system", lambda found: lambda *args: None)


@mutant("mwms.devices.like-mirrored", name="reduce-counts-twice")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import collective_all_reduce_strategy as module

    def other(found: Any) -> Any:
        return lambda self, *args, **kwargs: found(self, *args, **kwargs) * 2

    patch(module.CollectiveAllReduceExtended, "_reduce_to", other)
