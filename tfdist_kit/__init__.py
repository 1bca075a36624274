"""tfdist-kit: launch, check and survive multi-worker TensorFlow.

Importing this package never imports TensorFlow: the public names below are looked up when they
are first used. It only begins to watch for the call that initialises TensorFlow (`_first_use`),
so that a strategy that is made too late can be told why.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tfdist_kit import _first_use
from tfdist_kit._version import __version__

if TYPE_CHECKING:
    from tfdist_kit._errors import (
        DatasetError,
        JoinTimeoutError,
        MissingDependencyError,
        RunFileError,
        StrategyError,
        TFConfigError,
        TfdistError,
        TooLateError,
        UnsupportedVersionError,
        UsageError,
    )
    from tfdist_kit.adapters.multi_worker_mirrored import multi_worker_mirrored
    from tfdist_kit.tf_config import ClusterSpec, Task, TFConfig

__all__ = [
    "ClusterSpec",
    "DatasetError",
    "JoinTimeoutError",
    "MissingDependencyError",
    "RunFileError",
    "StrategyError",
    "TFConfig",
    "TFConfigError",
    "Task",
    "TfdistError",
    "TooLateError",
    "UnsupportedVersionError",
    "UsageError",
    "__version__",
    "multi_worker_mirrored",
]

_HOMES = {
    "ClusterSpec": "tfdist_kit.tf_config",
    "TFConfig": "tfdist_kit.tf_config",
    "Task": "tfdist_kit.tf_config",
    "multi_worker_mirrored": "tfdist_kit.adapters.multi_worker_mirrored",
}

_first_use.watch()


def __getattr__(name: str) -> Any:
    """Look a public name up in the room that defines it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES.get(name, "tfdist_kit._errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
