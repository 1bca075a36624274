"""Which strategy, which replica: the questions of a step that differ between strategies."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from tfdist_kit._errors import EmbeddingError, UnsupportedStrategyError, UsageError
from tfdist_kit.adapters._private import private

_REASONS = {
    "ParameterServer": "its workers do not run a step together, so that gradients are not summed",
    "CentralStorage": "its variables live on one device, which is not how an embedding trains",
    "TPU": "on a TPU it is TensorFlow's own class that trains",
}


def check_strategy(strategy: Any) -> None:
    """Refuse a strategy that is not modelled.

    Raises:
        UnsupportedStrategyError: It is not.
    """
    known = (
        tf.distribute.MirroredStrategy,
        tf.distribute.OneDeviceStrategy,
        tf.distribute.MultiWorkerMirroredStrategy,
    )
    if isinstance(strategy, known) or not _is_named(strategy):
        return
    name = type(strategy).__name__
    reasons = [reason for part, reason in _REASONS.items() if part in name]
    raise UnsupportedStrategyError(
        f"host mode does not model {name}{': ' + reasons[0] if reasons else ''}",
        hint="use no strategy, MirroredStrategy, OneDeviceStrategy or MultiWorkerMirroredStrategy",
    )


def _is_named(strategy: Any) -> bool:
    """Whether it is another than the default, which is there where no other is."""
    default = private("tensorflow.python.distribute.distribute_lib", "_DefaultDistributionStrategy")
    return not isinstance(strategy, default)


def scope_of(strategy: Any) -> Any:
    """The strategy's scope; nothing for the default, which has none of its own."""
    return strategy.scope() if _is_named(strategy) else contextlib.nullcontext()


def devices(strategy: Any) -> list[str]:
    """The device of each local replica."""
    if not _is_named(strategy):
        return ["/device:CPU:0"]
    return list(strategy.extended.worker_devices)


def workers(strategy: Any) -> int:
    """How many processes the strategy spans."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return 1
    return int(strategy.num_replicas_in_sync) // len(strategy.extended.worker_devices)


def this_worker(strategy: Any) -> int:
    """The number of this process among them; in a replica context."""
    replica = tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group)
    return int(replica) // len(devices(strategy))


def in_replica(strategy: Any) -> bool:
    """Whether this is within ``strategy.run`` of the embedding's own strategy.

    Raises:
        EmbeddingError: It is within another strategy's.
    """
    context = tf.distribute.get_replica_context()
    if context is None or not tf.distribute.has_strategy():
        return False
    _check_same(strategy, context.strategy, "enqueue")
    return True


def current(strategy: Any, what: str) -> int:
    """The local replica in which this is called.

    Raises:
        EmbeddingError: It is none of the strategy's.
    """
    context = tf.distribute.get_replica_context()
    if context is None or (_is_named(strategy) and not tf.distribute.has_strategy()):
        raise EmbeddingError(
            f"{what}() is called outside of strategy.run",
            hint="call it in the function that strategy.run runs in each replica",
        )
    _check_same(strategy, context.strategy, what)
    replica = tf.get_static_value(context.replica_id_in_sync_group)
    return int(replica) % len(devices(strategy))


def _check_same(mine: Any, theirs: Any, what: str) -> None:
    if mine is not theirs:
        raise EmbeddingError(
            f"{what}() is called in a {type(theirs).__name__}, but the embedding was made for "
            f"{type(mine).__name__ if _is_named(mine) else 'no strategy'}",
            hint="make the embedding in the scope of the strategy whose run() trains it",
        )


def meant(strategy: Any, device: str | None, in_replica: bool) -> Iterable[int]:
    """The local replicas that a batch is for.

    Raises:
        UsageError: The device is none of the strategy's.
    """
    if device is None:
        return [current(strategy, "enqueue")] if in_replica else range(len(devices(strategy)))
    wanted = _kind(device)
    found = [number for number, each in enumerate(devices(strategy)) if _kind(each) == wanted]
    if not found:
        raise UsageError(
            f"device {device!r} is none of the strategy's devices {devices(strategy)}",
            hint="give one of strategy.extended.worker_devices",
        )
    return found


def _kind(device: str) -> tuple[Any, Any]:
    spec = tf.DeviceSpec.from_string(device)
    return spec.device_type, spec.device_index


def select(strategy: Any, replica: int, *structures: Sequence[Any]) -> list[list[Any]]:
    """One local replica's part of each value; a value that is not distributed is for all."""

    def part(value: Any) -> Any:
        parts = strategy.experimental_local_results(value)
        return parts[replica] if len(parts) > 1 else parts[0]

    return [[part(value) for value in values] for values in structures]


def tensors_of(value: Any) -> Any:
    """The value as a tensor, if it is an array or a list of numbers."""
    kinds = (tf.Tensor, tf.SparseTensor, tf.RaggedTensor, tf.distribute.DistributedValues)
    return value if isinstance(value, kinds) else tf.convert_to_tensor(value)


def outside(strategy: Any, in_replica: bool, function: Callable[[], None]) -> None:
    """Call a function outside of the replicas, once for all of them."""
    if not in_replica:
        function()
        return
    tf.distribute.get_replica_context().merge_call(lambda _: function())
