"""Where and how a step's methods may be called."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfdist_kit._errors import EmbeddingError, UsageError
from tfdist_kit.adapters._xla import in_xla


def refuse_xla(what: str) -> None:
    """Refuse a call in what XLA compiles, which has no queues.

    Raises:
        EmbeddingError: It is one.
    """
    if in_xla():
        raise EmbeddingError(
            f"{what}() is called in a function that XLA compiles (jit_compile=True)",
            hint="leave jit_compile out, for a Keras model compile(jit_compile=False); functions "
            "of the model alone, inside of the step, may have it",
        )


def refuse_graphs(what: str) -> None:
    """Refuse a call in a `tf.function`.

    Raises:
        EmbeddingError: It is one.
    """
    if not tf.executing_eagerly():
        raise EmbeddingError(
            f"{what}() is called in a tf.function, which would call it only while it is traced",
            hint="call it outside, after the step",
        )


def check_training(training: Any) -> None:
    """Refuse what does not say whether a batch is to train.

    Raises:
        UsageError: It is no bool, nor a scalar tensor of one.
    """
    try:
        given = None if training is None else tf.convert_to_tensor(training)
    except (TypeError, ValueError):
        given = None
    if given is None or not given.dtype.is_bool or given.shape.rank not in (0, None):
        raise UsageError(
            f"training is {training!r}",
            hint="give True where apply_gradients() follows, else False; or a scalar bool tensor",
        )
