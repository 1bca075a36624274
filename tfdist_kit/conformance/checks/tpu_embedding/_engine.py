"""Steps that run: on a TPU if there is one, else in the kit's host mode.

strategy() -> embedding made in its scope -> looked_up(): enqueue, dequeue -> activations
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

_TPU = ("/dev/accel0", "/dev/vfio/0")


def tpu_strategy() -> Any:
    """A TPUStrategy on the TPU that is there."""
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="local")
    tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
    return tf.distribute.TPUStrategy(resolver)


def strategy() -> Any:
    """A TPUStrategy where there is a TPU, else the default strategy."""
    import tensorflow as tf

    there = any(Path(device).exists() for device in _TPU)
    return tpu_strategy() if there else tf.distribute.get_strategy()


def looked_up(of: Any, embedding: Any, features: Any, weights: Any = None) -> Any:
    """The activations of features, for evaluation.

    Args:
        of: The strategy that the embedding was made under.
        embedding: The embedding.
        features: A batch of one replica.
        weights: Of the ids; None for all 1.

    Returns:
        NumPy arrays of the first replica, in the structure of the features' configuration.
    """
    import tensorflow as tf

    @tf.function
    def step() -> Any:
        embedding.enqueue(features, weights, training=False)
        return of.run(embedding.dequeue)

    first = lambda value: of.experimental_local_results(value)[0].numpy()  # noqa: E731
    return tf.nest.map_structure(first, step())
