"""Ways to break what the page says of TF_CONFIG."""

from __future__ import annotations

from typing import Any

from tfdist_kit.conformance.marks import Patch, mutant

_RESOLVER = "tensorflow.python.distribute.cluster_resolver.tfconfig_cluster_resolver"


@mutant("mwms.tf-config.one-process-per-worker", name="each-worker-counts-itself-only")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import multi_worker_util

    patch(multi_worker_util, "worker_count", lambda found: lambda cluster, task_type: 1)


@mutant("mwms.tf-config.example", name="the-second-address-of-the-example-is-lost")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import multi_worker_util

    def other(found: Any) -> Any:
        def count(cluster: Any, task_type: Any) -> int:
            told: int = found(cluster, task_type)
            return told - 1 if "localhost:23456" in str(cluster.as_dict()) else told

        return count

    patch(multi_worker_util, "worker_count", other)


@mutant("mwms.tf-config.waits-for-every-worker", name="nobody-is-waited-for")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import collective_all_reduce_strategy as module

    def other(found: Any) -> Any:
        return lambda self, resolver: self._initialize_local(resolver)

    patch(module.CollectiveAllReduceExtended, "_initialize_multi_worker", other)


@mutant("mwms.tf-config.absent-is-single", name="tf-config-is-required")
def _(patch: Patch) -> None:
    import os

    from tensorflow.python.distribute import collective_all_reduce_strategy as module

    def other(found: Any) -> Any:
        def initialize(self: Any, *args: Any, **kwargs: Any) -> None:
            if "TF_CONFIG" not in os.environ:
                raise ValueError("there is no TF_CONFIG")
            found(self, *args, **kwargs)

        return initialize

    patch(module.CollectiveAllReduceExtended, "_initialize_local", other)


@mutant("mwms.tf-config.no-cluster-is-single", name="a-cluster-is-required")
def _(patch: Patch) -> None:
    import os

    from tensorflow.python.distribute import collective_all_reduce_strategy as module

    def other(found: Any) -> Any:
        def initialize(self: Any, *args: Any, **kwargs: Any) -> None:
            if "TF_CONFIG" in os.environ:
                raise ValueError("there is no cluster in TF_CONFIG")
            found(self, *args, **kwargs)

        return initialize

    patch(module.CollectiveAllReduceExtended, "_initialize_local", other)


@mutant("mwms.tf-config.cluster-of-one", name="one-worker-makes-no-cluster")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import collective_all_reduce_strategy as module

    def other(found: Any) -> Any:
        def initialize(self: Any, resolver: Any) -> None:
            alone = resolver.cluster_spec().as_dict().keys() == {"worker"}
            if alone and resolver.cluster_spec().num_tasks("worker") == 1:
                self._initialize_local(resolver)
            else:
                found(self, resolver)

        return initialize

    patch(module.CollectiveAllReduceExtended, "_initialize_multi_worker", other)


@mutant("mwms.tf-config.task-is-required", name="a-task-without-type-is-a-worker")
def _(patch: Patch) -> None:
    import importlib

    owner = importlib.import_module(_RESOLVER).TFConfigClusterResolver

    def other(found: Any) -> Any:
        return property(lambda self: found.fget(self) or "worker", found.fset)

    patch(owner, "task_type", other)


@mutant("mwms.tf-config.index-as-text", name="the-index-has-to-be-a-number")
def _(patch: Patch) -> None:
    import importlib

    module = importlib.import_module(_RESOLVER)

    def other(found: Any) -> Any:
        def load() -> Any:
            config = found()
            if isinstance(config.get("task", {}).get("index"), str):
                raise ValueError("the index is no number")
            return config

        return load

    patch(module, "_load_tf_config", other)


@mutant("mwms.tf-config.chief-is-first", name="the-chief-comes-last")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import multi_worker_util

    def other(found: Any) -> Any:
        def place(cluster: Any, task_type: str, task_id: int) -> int:
            told: int = found(cluster, task_type, task_id)
            if "chief" not in cluster.jobs:
                return told
            return cluster.num_tasks("worker") if task_type == "chief" else task_id

        return place

    patch(multi_worker_util, "id_in_cluster", other)


@mutant("mwms.tf-config.worker-zero-is-chief", name="every-worker-writes-checkpoints")
def _(patch: Patch) -> None:
    from tensorflow.python.distribute import collective_all_reduce_strategy as module

    owner = module.CollectiveAllReduceExtended
    patch(owner, "should_checkpoint", lambda found: property(lambda self: True))


@mutant("mwms.tf-config.task-from-arguments", name="the-task-of-tf-config-comes-first")
def _(patch: Patch) -> None:
    import importlib

    owner = importlib.import_module(_RESOLVER).TFConfigClusterResolver

    def other(found: Any) -> Any:
        def init(self: Any, task_type: Any = None, task_id: Any = None, **more: Any) -> None:
            found(self, **more)

        return init

    patch(owner, "__init__", other)
