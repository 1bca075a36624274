"""What may legitimately change the bits that this process computes.

TensorFlow, Keras, the environment, the machine -> {"threads": {"intra_op": 2, ...}, ...}

Two workers of one training must be alike in all of it (`preflight`), and so must two runs,
to be the same (`recorder.manifest`).
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfdist_kit.adapters._private import private
from tfdist_kit.adapters.op_determinism.switch import is_enabled

_PORT = "tensorflow.python.util._pywrap_util_port"
_CONTEXT = "tensorflow.python.eager.context"
_PACKAGES = ("tensorflow", "keras", "tf_keras", "numpy")
_READ = (
    *("TF_", "XLA_", "KERAS_", "OMP_", "KMP_", "MKL_", "DNNL_", "ONEDNN_", "OPENBLAS_"),
    *("CUDA_", "CUBLAS_", "CUDNN_", "NCCL_", "NVIDIA_TF32", "PYTHONHASHSEED", "LD_PRELOAD"),
)
_NOT_READ = (
    *("TF_CONFIG", "TF_CPP_", "CUDA_VISIBLE_DEVICES", "CUDA_CACHE_PATH", "CUDA_MPS_"),
    *("NCCL_HOSTID", "NCCL_SOCKET_IFNAME", "NCCL_DEBUG"),
    *("TF_CLI_", "TF_VAR_", "TF_LOG"),  # Terraform's
    *("KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK"),  # set by imports
)
"""Where a worker logs, what it is called, which devices it is given, and what is another's."""


def facts() -> dict[str, Any]:
    """Each fact in a group, as JSON can hold it."""
    import tensorflow as tf

    threads = tf.config.threading
    return {
        "versions": _versions(),
        "hardware": _hardware(),
        "threads": {
            "intra_op": threads.get_intra_op_parallelism_threads(),
            "inter_op": threads.get_inter_op_parallelism_threads(),
        },
        "switches": _switches(),
        "seeds": {"tensorflow": _plain(private(_CONTEXT, "global_seed")()), "keras": _keras_seed()},
        "environment": environment(os.environ),
    }


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that TensorFlow and its libraries read, and that may change bits."""
    return {
        name: value
        for name, value in sorted(environ.items())
        if name.startswith(_READ) and not name.startswith(_NOT_READ)
    }


def cpus() -> int | None:
    """How many this process may use: TensorFlow's own number of threads."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def short(text: str) -> str:
    """A digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _switches() -> dict[str, Any]:
    import tensorflow as tf

    return {
        "op_determinism": is_enabled(),
        "one_dnn": bool(private(_PORT, "IsMklEnabled")()),
        "xla_jit": str(tf.config.optimizer.get_jit()),
        "tf32": tf.config.experimental.tensor_float_32_execution_enabled(),
        "precision": _precision(),
        "eager_functions": tf.config.functions_run_eagerly(),
    }


def _precision() -> str:
    for name in ("keras", "tf_keras"):
        if name in sys.modules:
            policy = sys.modules[name].mixed_precision
            get = getattr(policy, "dtype_policy", None) or policy.global_policy
            return str(get().name)
    return ""


def _keras_seed() -> Any:
    seeded = getattr(sys.modules.get("keras.src.utils.rng_utils"), "get_random_seed", None)
    return _plain(seeded()) if seeded else None


def _versions() -> dict[str, str | None]:
    import tensorflow as tf

    return {
        **{package: _version(package) for package in _PACKAGES},
        "build": str(tf.version.GIT_VERSION),
        "python": platform.python_version(),
        "system": " ".join((platform.system(), platform.machine(), *platform.libc_ver())),
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:  # such as tensorflow-cpu
        return getattr(sys.modules.get(package), "__version__", None)


def _hardware() -> dict[str, Any]:
    import tensorflow as tf

    devices = tf.config.list_physical_devices()
    return {**_processor(), "cores": cpus(), "devices": [_device(each) for each in devices]}


def _device(device: Any) -> str:
    import tensorflow as tf

    told = tf.config.experimental.get_device_details(device)
    return f"{device.device_type} {told.get('device_name', '')}".strip()


def _processor() -> dict[str, str]:
    """The processor's model, and a digest of the instructions that it has."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    pairs = [line.partition(":") for line in lines]
    told = {name.strip(): value.strip() for name, _, value in reversed(pairs)}
    return {
        "processor": told.get("model name", platform.processor()),
        "processor_features": short(told.get("flags", "")),
    }


def _plain(seed: Any) -> Any:
    return seed if seed is None else int(seed)
