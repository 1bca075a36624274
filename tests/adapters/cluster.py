"""Runs a function of a test module in TensorFlow workers, by `LocalCluster`.

All clusters of a test session are forked from one process, which has imported TensorFlow and
Keras but runs no operation (see ``conftest.py``). The pytest process never imports TensorFlow.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import Any

from tfdist_kit import LocalCluster

PRELOAD = ("tensorflow", "tf_keras", "tensorflow_datasets")
ENV = {
    "TF_CPP_MIN_LOG_LEVEL": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "KERAS_BACKEND": "tensorflow",
    "TF_ENABLE_ONEDNN_OPTS": "0",
}


def cluster(
    workers: int = 2,
    *,
    chief: bool = False,
    evaluator: bool = False,
    env: Mapping[str, str] | None = None,
) -> LocalCluster:
    """A cluster of the suite's own kind; one with another `env` imports TensorFlow anew."""
    return LocalCluster(
        workers,
        chief=chief,
        evaluator=evaluator,
        env={**ENV, **(env or {})},
        preload=PRELOAD[:2] if env else PRELOAD,
        isolate=True,
    )


def run_workers(
    function: str, *, workers: int = 2, timeout: float = 180, **kwargs: Any
) -> list[Any]:
    """Run ``module:name`` in each of ``workers`` workers; with 0, in one process alone."""
    if workers == 0:
        with cluster(1) as single:
            return single.run(_alone, function, kwargs, timeout=timeout)
    return run_cluster(function, ("worker",) * workers, timeout=timeout, **kwargs)


def run_cluster(
    function: str, layout: tuple[str, ...], *, timeout: float = 180, **kwargs: Any
) -> list[Any]:
    """Run ``module:name`` in a process for each of the task types, which come in rank order."""
    workers, chief, evaluator = layout.count("worker"), "chief" in layout, "evaluator" in layout
    with cluster(workers, chief=chief, evaluator=evaluator) as workers_of_it:
        return workers_of_it.run(_call, function, kwargs, timeout=timeout)


def _call(function: str, kwargs: dict[str, Any]) -> Any:
    module, name = function.split(":")
    return getattr(importlib.import_module(module), name)(**kwargs)


def _alone(function: str, kwargs: dict[str, Any]) -> Any:
    del os.environ["TF_CONFIG"]
    return _call(function, kwargs)
