"""Calls checks in the workers of one cluster, and brings back what each of them said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tfdist_kit

Case = Callable[[Any], None]
SAME = "passed"


def strategy_of(api: str, replicas: int = 1) -> Any:
    """The worker's strategy of this class, with so many local replicas."""
    if replicas > 1:
        from tfdist_kit.adapters.local_replicas import enable_local_replicas

        enable_local_replicas(replicas)
    return tfdist_kit.multi_worker_mirrored(api=api)  # type: ignore[arg-type]


def local_strategies() -> dict[str, Any]:
    """The strategies of a process without a cluster: the default, and two local replicas."""
    import tensorflow as tf

    [cpu] = tf.config.list_physical_devices("CPU")
    devices = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(cpu, devices)
    return {
        "default": tf.distribute.get_strategy(),
        "mirrored": tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]),
    }


def outcomes(strategy: Any, cases: dict[str, Case]) -> dict[str, str]:
    """What each case raised in this worker, or `SAME`."""
    return {name: outcome(case, strategy) for name, case in cases.items()}


def outcome(case: Case, strategy: Any) -> str:
    try:
        case(strategy)
    except (AssertionError, tfdist_kit.UsageError) as error:
        return f"{type(error).__name__}: {error}"
    return SAME


def rank_of(strategy: Any) -> int:
    """This worker's number, by TensorFlow's own account."""
    return int(strategy.cluster_resolver.task_id or 0)
