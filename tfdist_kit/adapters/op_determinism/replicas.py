"""A seed of its own for each replica, so that replicas do not share a dropout mask.

One seed on all workers is right for the weights and the order of the data, and wrong for noise: all
replicas drop the same units.

    a seed, the replica's number -> folded together -> its seed
"""

from __future__ import annotations

import hashlib
from typing import Any

from tfdist_kit._errors import UsageError
from tfdist_kit.adapters._meeting import group_of
from tfdist_kit.adapters._private import private

_LARGEST = 2**31 - 1


def replica_seed(seed: int, strategy: Any = None) -> Any:
    """The seed of this replica.

    Within `strategy.run` it is for ``tf.random.stateless_*``. Elsewhere it is for what is made on
    each worker by itself: ``tf.random.Generator.from_seed``, a seed in a worker's dataset, a
    `tf_keras` layer. A Keras 3 layer keeps its seed in a variable, which starts out alike on all
    workers: see `separate_replicas`.

    Args:
        seed: The seed of all replicas.
        strategy: The strategy; None for the one whose scope this is.

    Returns:
        Within `strategy.run`, a tensor of shape ``[2]`` and type int32; elsewhere an int. With one
        replica, what all replicas would share.

    Raises:
        UsageError: This worker has several replicas, and this is not within `strategy.run`.
    """
    import tensorflow as tf

    if _within_run():
        return _folded(tf.constant([seed, 0]))
    own = tf.distribute.get_strategy() if strategy is None else strategy
    if own.num_replicas_in_sync == 1:
        return seed
    if len(own.extended.worker_devices) > 1:
        raise UsageError(
            f"this worker has {len(own.extended.worker_devices)} replicas, which one int cannot "
            "tell apart",
            hint="call replica_seed within strategy.run",
        )
    group = group_of(own)
    return _mixed(seed, group.tasks.index(group.task))


def separate_replicas(model: Any) -> None:
    """Have each replica draw numbers of its own in the layers of a Keras 3 model.

    A layer such as Dropout keeps its seed in a variable, which is the same on all replicas,
    whatever seed the layer was given. From now on the number of the replica is folded into what it
    draws. The variable itself stays alike everywhere, as saving needs it. With one replica nothing
    changes.

    Args:
        model: A `keras.Model`, made in the strategy's scope, before it is trained.

    Raises:
        UsageError: It is no Keras 3 model.
        UnsupportedVersionError: Keras' internals are not as expected.
    """
    layer = private("keras.src.layers.layer", "Layer")
    if not isinstance(model, layer):
        raise UsageError(
            f"model is {type(model).__module__}.{type(model).__name__}",
            hint="give a keras.Model; a tf_keras layer takes seed=replica_seed(seed)",
        )
    private("keras.src.layers.layer", "Layer", "_flatten_layers")
    for each in model._flatten_layers():
        for generator in getattr(each, "_seed_generators", ()):
            _separate(generator)


def _separate(generator: Any) -> None:
    import tensorflow as tf

    draw = generator.next
    if hasattr(draw, "tfdist_original"):
        return

    def draw_own(*args: Any, **kwargs: Any) -> Any:
        seed = draw(*args, **kwargs)
        if not _within_run():
            return seed
        return tf.cast(_folded(tf.cast(seed, tf.int32)), seed.dtype)

    draw_own.tfdist_original = draw  # type: ignore[attr-defined]
    generator.next = draw_own


def _within_run() -> bool:
    import tensorflow as tf

    return tf.distribute.has_strategy() and not tf.distribute.in_cross_replica_context()


def _folded(seed: Any) -> Any:
    """The seed with this replica's number in it, if there are several replicas."""
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    if context.num_replicas_in_sync == 1:
        return seed
    return tf.random.fold_in(seed, context.replica_id_in_sync_group)


def _mixed(seed: int, replica: int) -> int:
    digest = hashlib.sha256(f"{seed}/{replica}".encode()).digest()
    return int.from_bytes(digest[:4], "little") % _LARGEST
