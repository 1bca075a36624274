"""Learning rates that change from step to step, for the optimizers of embeddings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def adam_bias_correction(
    learning_rate: float | Callable[[], Any], beta_1: float, beta_2: float, step: Any
) -> Callable[[], Any]:
    """A learning rate that makes `tf.tpu.experimental.embedding.Adam` correct its bias.

    That optimizer does not, unlike Keras' Adam, so that its first steps have another length. The
    note in ``optimization_parameters.proto`` names the remedy: the rate times
    ``sqrt(1 - beta_2^t) / (1 - beta_1^t)`` in step t. With ``sum_inside_sqrt=False`` and every row
    looked up in every step, it is then what Keras' Adam computes.

    Args:
        learning_rate: The rate itself: a number, or a function without arguments.
        beta_1: The optimizer's.
        beta_2: The optimizer's.
        step: How many steps have been finished, 0 in the first one; an integer `tf.Variable`, or
            a function without arguments. It must be counted up after `apply_gradients`. With a
            Keras optimizer in the same step, that is its ``iterations``, if it is applied last.

    Returns:
        What to give as the optimizer's ``learning_rate``.
    """

    def rate() -> Any:
        import tensorflow as tf

        # In float32 the first powers of beta_2 are too close to 1 to be subtracted from it.
        number = tf.cast(step() if callable(step) else step, tf.float64) + 1.0
        corrected = tf.sqrt(1.0 - tf.pow(tf.cast(beta_2, tf.float64), number)) / (
            1.0 - tf.pow(tf.cast(beta_1, tf.float64), number)
        )
        given = learning_rate() if callable(learning_rate) else learning_rate
        return tf.cast(tf.cast(given, tf.float64) * corrected, tf.float32)

    return rate
