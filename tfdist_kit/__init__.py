"""tfdist-kit: launch, check and survive multi-worker TensorFlow.

Importing this package never imports TensorFlow: the public names below are looked up when they
are first used. It only begins to watch for the call that initialises TensorFlow (`_first_use`),
so that a strategy that is made too late can be told why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfdist_kit import _first_use, _lazy
from tfdist_kit._version import __version__

if TYPE_CHECKING:
    from tfdist_kit._errors import (
        ClusterError,
        ClusterTimeoutError,
        DatasetError,
        ExchangeError,
        JoinTimeoutError,
        MissingDependencyError,
        RegisterError,
        RunFileError,
        StrategyError,
        TFConfigError,
        TfdistError,
        TooLateError,
        UnsupportedVersionError,
        UsageError,
        WorkerError,
        WorkerLostError,
    )
    from tfdist_kit.adapters.multi_worker_mirrored import multi_worker_mirrored
    from tfdist_kit.launcher import LocalCluster
    from tfdist_kit.launcher.inside.progress import report_progress
    from tfdist_kit.tf_config import ClusterSpec, Task, TFConfig

__all__ = [
    "ClusterError",
    "ClusterSpec",
    "ClusterTimeoutError",
    "DatasetError",
    "ExchangeError",
    "JoinTimeoutError",
    "LocalCluster",
    "MissingDependencyError",
    "RegisterError",
    "RunFileError",
    "StrategyError",
    "TFConfig",
    "TFConfigError",
    "Task",
    "TfdistError",
    "TooLateError",
    "UnsupportedVersionError",
    "UsageError",
    "WorkerError",
    "WorkerLostError",
    "__version__",
    "multi_worker_mirrored",
    "report_progress",
]

_first_use.watch()

__getattr__ = _lazy.looked_up(
    __name__,
    {
        **{name: "tfdist_kit._errors" for name in __all__ if name.endswith("Error")},
        "ClusterSpec": "tfdist_kit.tf_config",
        "LocalCluster": "tfdist_kit.launcher",
        "TFConfig": "tfdist_kit.tf_config",
        "Task": "tfdist_kit.tf_config",
        "multi_worker_mirrored": "tfdist_kit.adapters.multi_worker_mirrored",
        "report_progress": "tfdist_kit.launcher.inside.progress",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
