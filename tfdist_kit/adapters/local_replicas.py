"""Several local replicas in each worker, on CPU, so that tests can have them without GPUs.

    enable_local_replicas(2) -> logical CPUs            (public: tf.config)
                             -> the strategy's devices  (one private method, replaced)

TensorFlow gives a worker of a ``MultiWorkerMirroredStrategy`` one replica for each GPU, and exactly
one on CPU. This is not a configuration that TensorFlow supports: use it in tests, never to train.
"""

from __future__ import annotations

from typing import Any

from tfdist_kit import _first_use
from tfdist_kit._errors import TooLateError, UsageError
from tfdist_kit.adapters import _coordination
from tfdist_kit.adapters._private import private

__all__ = ["enable_local_replicas", "local_replicas"]

_STRATEGY = "tensorflow.python.distribute.collective_all_reduce_strategy"
_enabled: list[int] = []


def enable_local_replicas(count: int) -> None:
    """Give this worker `count` replicas, each on a logical CPU of its own.

    Call it in every worker, with the same count, before the strategy is made and before anything
    else that uses TensorFlow. It holds for every ``MultiWorkerMirroredStrategy`` (v2 and
    compat.v1) that this process makes. TensorFlow does not support such a configuration: it is
    for tests of what happens with several replicas in a worker.

    Args:
        count: Replicas in this worker, 1 or more.

    Raises:
        UsageError: The count is wrong, another one was enabled before, or this machine has GPUs.
        TooLateError: TensorFlow was initialised already; names the call, if it was seen.
        UnsupportedVersionError: TensorFlow lacks the method that has to be replaced.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise UsageError(f"count is {count!r}", hint="give a whole number of replicas, 1 or more")
    if _enabled:
        _check_same(count)
        return
    extended = private(_STRATEGY, "CollectiveAllReduceExtended")
    private(_STRATEGY, "CollectiveAllReduceExtended", "_initialize_local_devices")
    if _coordination.is_initialised():
        raise _too_late()
    _configure_logical_cpus(count)
    extended._initialize_local_devices = _devices(count)
    _enabled.append(count)


def local_replicas() -> int | None:
    """How many replicas were enabled in this process; None if TensorFlow decides."""
    return _enabled[0] if _enabled else None


def _check_same(count: int) -> None:
    if _enabled != [count]:
        raise UsageError(
            f"count is {count}, but {_enabled[0]} local replicas were enabled in this process",
            hint="TensorFlow's devices cannot be changed any more: use a fresh process",
        )


def _too_late() -> TooLateError:
    call = _first_use.culprit() or "a call before tfdist_kit was imported"
    return TooLateError(
        f"TensorFlow was initialised before enable_local_replicas, by {call}",
        hint="enable local replicas first, before the strategy is made",
    )


def _configure_logical_cpus(count: int) -> None:
    import tensorflow as tf

    if tf.config.list_physical_devices("GPU"):
        raise UsageError(
            "this machine has GPUs, each of which is a replica already",
            hint="hide them from the workers (CUDA_VISIBLE_DEVICES=''), or do without "
            "enable_local_replicas",
        )
    [cpu] = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * count
    )


def _devices(count: int) -> Any:
    def initialize_local_devices(self: Any, cluster_resolver: Any, worker_device: str) -> Any:
        return tuple(f"{worker_device}/device:CPU:{index}" for index in range(count)), "CPU"

    return initialize_local_devices
