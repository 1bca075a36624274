"""A condition of a step that is held against the values of the step, eagerly or in a graph."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfdist_kit._errors import EmbeddingError


def require(condition: Any, message: str, hint: str, *values: Any) -> Any:
    """Fail if it does not hold: at once when eager, else when the graph runs.

    Args:
        condition: A boolean scalar.
        message: What is wrong.
        hint: What to do.
        values: Tensors to be shown with the message.

    Returns:
        What must come before the operations that rely on it; None when eager.

    Raises:
        EmbeddingError: It does not hold, eagerly. In a graph it is TensorFlow's
            `InvalidArgumentError` with the same text.
    """
    if not tf.executing_eagerly():
        text = str(EmbeddingError(message, hint=hint))
        return tf.raw_ops.Assert(condition=condition, data=[text, *values], summarize=10)
    if not condition:
        shown = ", ".join(str(value.numpy()) for value in values)
        raise EmbeddingError(f"{message}: {shown}" if shown else message, hint=hint)
    return None


def after(*requirements: Any) -> Any:
    """A scope whose operations run after the requirements."""
    return tf.control_dependencies([each for each in requirements if each is not None])
