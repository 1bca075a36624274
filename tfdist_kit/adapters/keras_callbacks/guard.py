"""Keras' own names that its callbacks keep to themselves, looked up in one place."""

from __future__ import annotations

from typing import Any

from tfdist_kit._errors import UnsupportedVersionError


def require(owner: Any, name: str) -> Any:
    """An attribute of Keras that must be there.

    Raises:
        UnsupportedVersionError: It is not.
    """
    import keras

    if not hasattr(owner, name):
        what = owner.__name__ if isinstance(owner, type) else type(owner).__name__
        raise UnsupportedVersionError(
            f"Keras {keras.__version__} has no {what}.{name}",
            hint="use Keras 3.10 to 3.15",
        )
    return getattr(owner, name)
