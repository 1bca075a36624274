"""Methods of TPUEmbedding, and of the kit's host mode, that mutants change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfdist_kit.conformance.marks import Patch
from tfdist_kit.conformance.mutants._tpu_embedding import module


def changed(patch: Patch, owner: Any, name: str, change: Callable[..., Any]) -> None:
    """Change a function of a class or module.

    Args:
        patch: The mutant's.
        owner: The class or module.
        name: The function.
        change: Is given the function as it was, and what it is called with.
    """

    def make(found: Any) -> Any:
        def other(*arguments: Any, **named: Any) -> Any:
            return change(found, *arguments, **named)

        return other

    patch(owner, name, make)


def method(patch: Patch, name: str, change: Callable[..., Any]) -> None:
    """Change a method of TensorFlow's class; see `changed`."""
    changed(patch, module().TPUEmbedding, name, change)


def host_method(patch: Patch, name: str, change: Callable[..., Any]) -> None:
    """Change a method of the kit's host mode; see `changed`."""
    from tfdist_kit.adapters.tpu_embedding import HostTPUEmbedding

    changed(patch, HostTPUEmbedding, name, change)


def inferred(patch: Patch, kind: str, shape: Callable[[Any], Any]) -> None:
    """Have features of a kind count as of another shape.

    Args:
        patch: The mutant's.
        kind: tensor, sparse_tensor or ragged_tensor.
        shape: The input shape that a tensor is taken for.
    """

    def change(found: Any, self: Any, tensor: Any, *rest: Any) -> Any:
        return shape(tensor)

    method(patch, f"_get_input_shape_for_{kind}", change)


def with_rows(tensor: Any, *others: int | None) -> Any:
    """The shape of as many rows as a tensor has, and of other sizes behind that."""
    return tensor.shape[:1].concatenate(others)
