"""What counts as an embedding, of this package or of TensorFlow."""

from __future__ import annotations

from typing import Any

from tfdist_kit._errors import UsageError


def is_embedding(value: Any) -> bool:
    """Whether it is a `TPUEmbedding` of any kind, or a `TPUEmbeddingForServing`."""
    import tensorflow as tf

    kinds = tf.tpu.experimental.embedding
    return isinstance(value, (kinds.TPUEmbedding, kinds.TPUEmbeddingForServing))


def require_embedding(value: Any) -> None:
    """Refuse what is none.

    Raises:
        UsageError: It is of another type.
    """
    if not is_embedding(value):
        raise UsageError(
            f"embedding is a {type(value).__name__}",
            hint="give a TPUEmbedding or a TPUEmbeddingForServing",
        )
