"""Values that each replica holds, put there and read back.

value_of(id) -> held: in the replica with that id -> a collective or not -> here: NumPy
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def held(strategy: Any, value_of: Callable[[int], Any]) -> Any:
    """What the replicas hold: each `value_of` its id in the sync group.

    Returns:
        What `run` returns: a tensor if this worker has one replica, or a PerReplica.
    """
    import tensorflow as tf

    def hold() -> Any:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        return tf.convert_to_tensor(value_of(int(replica)))

    return strategy.run(hold)


def here(strategy: Any, value: Any) -> list[Any]:
    """What the replicas of this worker hold, as NumPy arrays or scalars."""
    return [each.numpy() for each in strategy.experimental_local_results(value)]
