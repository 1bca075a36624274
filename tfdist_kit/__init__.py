"""tfdist-kit: launch, check and survive multi-worker TensorFlow.

Importing this package never imports TensorFlow: the public names below are looked up when they
are first used. It only begins to watch for the call that initialises TensorFlow (`_first_use`) and
for datasets that are read (`_read_datasets`), so that what comes too late can be told why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfdist_kit import _first_use, _lazy, _read_datasets
from tfdist_kit._version import __version__

if TYPE_CHECKING:
    from tfdist_kit._errors import (
        CheckpointError,
        ClusterError,
        ClusterTimeoutError,
        DatasetError,
        EmbeddingError,
        ExchangeError,
        JoinTimeoutError,
        MissingDependencyError,
        RegisterError,
        RunFileError,
        StrategyError,
        TFConfigError,
        TfdistError,
        TooLateError,
        UnsupportedStrategyError,
        UnsupportedVersionError,
        UsageError,
        WorkerError,
        WorkerLostError,
    )
    from tfdist_kit.adapters.multi_worker_mirrored import multi_worker_mirrored
    from tfdist_kit.adapters.op_determinism import enable_op_determinism
    from tfdist_kit.adapters.preemption_checkpoint import (
        preemption_checkpoint_handler,
        watch_preemption,
    )
    from tfdist_kit.adapters.tpu_embedding import tpu_embedding
    from tfdist_kit.launcher import LocalCluster
    from tfdist_kit.launcher.inside.progress import report_progress
    from tfdist_kit.tf_config import ClusterSpec, Task, TFConfig

__all__ = [
    "CheckpointError",
    "ClusterError",
    "ClusterSpec",
    "ClusterTimeoutError",
    "DatasetError",
    "EmbeddingError",
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
    "UnsupportedStrategyError",
    "UnsupportedVersionError",
    "UsageError",
    "WorkerError",
    "WorkerLostError",
    "__version__",
    "enable_op_determinism",
    "multi_worker_mirrored",
    "preemption_checkpoint_handler",
    "report_progress",
    "tpu_embedding",
    "watch_preemption",
]

_first_use.watch()
_read_datasets.watch()

__getattr__ = _lazy.looked_up(
    __name__,
    {
        **{name: "tfdist_kit._errors" for name in __all__ if name.endswith("Error")},
        "ClusterSpec": "tfdist_kit.tf_config",
        "LocalCluster": "tfdist_kit.launcher",
        "TFConfig": "tfdist_kit.tf_config",
        "Task": "tfdist_kit.tf_config",
        "enable_op_determinism": "tfdist_kit.adapters.op_determinism",
        "multi_worker_mirrored": "tfdist_kit.adapters.multi_worker_mirrored",
        "preemption_checkpoint_handler": "tfdist_kit.adapters.preemption_checkpoint",
        "report_progress": "tfdist_kit.launcher.inside.progress",
        "tpu_embedding": "tfdist_kit.adapters.tpu_embedding.making",
        "watch_preemption": "tfdist_kit.adapters.preemption_checkpoint",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
