"""What the mutants of TPUEmbedding share: its classes, and a constructor that does otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfdist_kit.conformance.marks import Patch


def module() -> Any:
    """TensorFlow's module of the class."""
    from tensorflow.python.tpu import tpu_embedding_v2

    return tpu_embedding_v2


def utils() -> Any:
    """TensorFlow's module of the configurations and optimizers."""
    from tensorflow.python.tpu import tpu_embedding_v2_utils

    return tpu_embedding_v2_utils


def constructed(patch: Patch, owner: Any, change: Callable[..., dict[str, Any]]) -> None:
    """Have a class constructed with other arguments.

    Args:
        patch: Replaces an attribute.
        owner: The class.
        change: Is given all arguments by name, and returns those to construct it with.
    """
    import inspect

    def other(found: Any) -> Any:
        signature = inspect.signature(found)

        def init(self: Any, *arguments: Any, **named: Any) -> None:
            bound = signature.bind(self, *arguments, **named)
            bound.apply_defaults()
            given = dict(list(bound.arguments.items())[1:])
            found(self, **change(**given))

        return init

    patch(owner, "__init__", other)


def embedding(patch: Patch, change: Callable[..., dict[str, Any]]) -> None:
    """Have a TPUEmbedding constructed with other arguments."""
    constructed(patch, module().TPUEmbedding, change)


def accepted(patch: Patch, owner: Any, **instead: Any) -> None:
    """Have a class take everything, with something else in the place of some arguments.

    Args:
        patch: Replaces an attribute.
        owner: The class.
        instead: What is taken for what it would refuse.
    """

    def other(found: Any) -> Any:
        def init(self: Any, *arguments: Any, **named: Any) -> None:
            try:
                found(self, *arguments, **named)
            except ValueError:
                found(self, *arguments, **{**named, **instead})

        return init

    patch(owner, "__init__", other)
