"""The manifest of a process: everything that may legitimately change the bits that it computes.

Versions, hardware, thread counts, switches, seeds, and the variables of the environment that
TensorFlow and its libraries read. Two runs whose manifests differ need not be the same, bit by bit.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import platform
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfdist_kit.adapters._private import private
from tfdist_kit.adapters.op_determinism.switch import is_enabled

_READ = (
    *("TF_ENABLE_ONEDNN_OPTS", "TF_DETERMINISTIC_OPS", "TF_CUDNN_DETERMINISTIC", "TF_XLA_FLAGS"),
    *("TF_NUM_INTEROP_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_GPU_THREAD_MODE", "TF_USE_CUBLASLT"),
    *("TF_CUDNN_USE_AUTOTUNE", "TF_CUDNN_USE_FRONTEND", "TF_CUDNN_RNN_USE_V2", "XLA_FLAGS"),
    *("TF_USE_LEGACY_KERAS", "TF_DISABLE_MKL", "TF_GPU_ALLOCATOR", "TF_ENABLE_LAYOUT_OPT"),
    *("TF_GRAPPLER_GRAPH_REWRITER_DISABLE", "TF_FORCE_GPU_ALLOW_GROWTH", "PYTHONHASHSEED"),
    *("KERAS_BACKEND", "KERAS_FLOATX", "NVIDIA_TF32_OVERRIDE", "CUDA_VISIBLE_DEVICES"),
    *("CUBLAS_WORKSPACE_CONFIG", "CUDA_LAUNCH_BLOCKING", "LD_PRELOAD"),
)
_READ_BY_PREFIX = ("OMP_", "KMP_", "MKL_", "ONEDNN_", "DNNL_", "NCCL_", "OPENBLAS_", "CUDNN_")
_SET_BY_IMPORTS = ("KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK")


def manifest() -> dict[str, Any]:
    """What may legitimately change this process' bits, as JSON can hold it.

    Call it when TensorFlow is set up: threads, switches and seeds are told as they are now.

    Returns:
        Nested dicts, such as ``{"threads": {"intra_op": 0, ...}, ...}``. What is under ``task``
        differs between workers by design; ``drawn`` tells the states of random generators, which
        are the same in two runs only if they were seeded.
    """
    import tensorflow as tf

    threads = tf.config.threading
    return {
        "versions": _versions(),
        "hardware": _hardware(),
        "threads": {
            "intra_op": threads.get_intra_op_parallelism_threads(),
            "inter_op": threads.get_inter_op_parallelism_threads(),
        },
        "switches": {
            "op_determinism": is_enabled(),
            "xla_jit": str(tf.config.optimizer.get_jit()),
            "tf32": tf.config.experimental.tensor_float_32_execution_enabled(),
            "precision": _precision(),
            "eager_functions": tf.config.functions_run_eagerly(),
        },
        "seeds": {"tensorflow": private("tensorflow.python.eager.context", "global_seed")()},
        "environment": environment(os.environ),
        "cluster": _cluster(),
        "program": _program(),
        "task": _config().get("task"),
        "drawn": _drawn(),
    }


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that may change bits: known names only, so that others are no difference."""
    return {
        name: value
        for name, value in sorted(environ.items())
        if (name in _READ or name.startswith(_READ_BY_PREFIX)) and name not in _SET_BY_IMPORTS
    }


def _versions() -> dict[str, str]:
    import tensorflow as tf

    kerases: dict[str, str] = {
        name: str(getattr(sys.modules[name], "__version__", ""))
        for name in ("keras", "tf_keras")
        if name in sys.modules
    }
    return {
        "tensorflow": tf.__version__,
        "build": str(tf.version.GIT_VERSION),
        "numpy": importlib.import_module("numpy").__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        **kerases,
    }


def _hardware() -> dict[str, Any]:
    import tensorflow as tf

    model, flags = _processor()
    affinity = getattr(os, "sched_getaffinity", None)
    return {
        "processor": model,
        "processor_features": _short(flags),
        "cores": len(affinity(0)) if affinity else os.cpu_count(),
        "devices": [
            f"{device.device_type} {_details(device)}".strip()
            for device in tf.config.list_physical_devices()
        ],
    }


def _details(device: Any) -> str:
    import tensorflow as tf

    told = tf.config.experimental.get_device_details(device)
    return str(told.get("device_name", ""))


def _processor() -> tuple[str, str]:
    found = {"model name": platform.processor(), "flags": ""}
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    for line in reversed(lines):  # the first processor's words are kept
        name, _, value = line.partition(":")
        if name.strip() in found:
            found[name.strip()] = value.strip()
    return found["model name"], found["flags"]


def _precision() -> str:
    for name in ("keras", "tf_keras"):
        if name in sys.modules:
            policy = sys.modules[name].mixed_precision
            get = getattr(policy, "dtype_policy", None) or policy.global_policy
            return str(get().name)
    return ""


def _config() -> dict[str, Any]:
    try:
        config = json.loads(os.environ.get("TF_CONFIG") or "{}")
    except ValueError:
        return {}
    return config if isinstance(config, dict) else {}


def _cluster() -> dict[str, int]:
    """How many tasks of each kind; the addresses change no bits."""
    jobs = _config().get("cluster")
    return {job: len(tasks) for job, tasks in jobs.items()} if isinstance(jobs, dict) else {}


def _program() -> dict[str, Any]:
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    try:
        text = Path(script).read_bytes() if script else b""
    except OSError:
        text = b""
    return {"script": _short(text.decode("utf-8", "replace")), "arguments": sys.argv[1:]}


def _drawn() -> dict[str, str]:
    import numpy as np

    return {
        "python": _short(repr(random.getstate())),
        "numpy": _short(repr([np.asarray(part).tolist() for part in np.random.get_state()])),
    }


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
