"""Private names of TensorFlow, looked up in one place."""

from __future__ import annotations

import importlib
from typing import Any

from tfdist_kit._errors import UnsupportedVersionError


def private(module: str, *names: str) -> Any:
    """Look a private name of TensorFlow up, or say which one this version lacks."""
    found = importlib.import_module(module)
    for name in names:
        if not hasattr(found, name):
            version = importlib.import_module("tensorflow").__version__
            raise UnsupportedVersionError(
                f"TensorFlow {version} has no {module}.{'.'.join(names)}",
                hint="use a version of TensorFlow that tfdist-kit supports (2.18 to 2.21)",
            )
        found = getattr(found, name)
    return found
