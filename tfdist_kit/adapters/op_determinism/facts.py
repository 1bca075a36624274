"""What may change the bits of a training on this worker, as far as it must be alike on all.

TensorFlow, Keras, the environment, the machine -> "threads.intra": 2, "env.XLA_FLAGS": ...
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tfdist_kit.adapters._private import private
from tfdist_kit.adapters.op_determinism.switch import is_enabled

_PORT = "tensorflow.python.util._pywrap_util_port"
_CONTEXT = "tensorflow.python.eager.context"
_PACKAGES = ("tensorflow", "keras", "tf_keras", "numpy")
_READ = ("TF_", "XLA_", "KERAS_", "OMP_", "KMP_", "MKL_", "DNNL_", "ONEDNN_", "CUDA_", "CUBLAS_")
_READ_TOO = ("CUDNN_", "NCCL_", "NVIDIA_TF32", "PYTHONHASHSEED")
_OF_ONE_WORKER = {
    *("TF_CONFIG", "TF_CPP_MIN_LOG_LEVEL", "TF_CPP_MAX_VLOG_LEVEL", "TF_CPP_VMODULE"),
    *("TF_CLI_CONFIG_FILE", "CUDA_VISIBLE_DEVICES", "CUDA_CACHE_PATH", "NCCL_HOSTID"),
    *("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY", "NCCL_SOCKET_IFNAME"),
    *("NCCL_DEBUG", "NCCL_DEBUG_FILE"),
}
"""Where a worker logs, what it is called, and which devices it is given."""


def facts() -> dict[str, Any]:
    """Each fact under a dotted key, as JSON can hold it."""
    return {**dict(_of_tensorflow()), **dict(_of_software()), **dict(_of_hardware())}


def _of_tensorflow() -> Iterator[tuple[str, Any]]:
    import tensorflow as tf

    yield "switch", "on" if is_enabled() else "off"
    yield "seed.tensorflow", _plain(private(_CONTEXT, "global_seed")())
    yield "seed.keras", _keras_seed()
    yield "threads.intra", tf.config.threading.get_intra_op_parallelism_threads()
    yield "threads.inter", tf.config.threading.get_inter_op_parallelism_threads()
    yield "oneDNN", "on" if private(_PORT, "IsMklEnabled")() else "off"
    yield "XLA", str(tf.config.optimizer.get_jit()) or "off"


def _keras_seed() -> Any:
    seeded = getattr(sys.modules.get("keras.src.utils.rng_utils"), "get_random_seed", None)
    return _plain(seeded()) if seeded else None


def _of_software() -> Iterator[tuple[str, Any]]:
    import tensorflow as tf

    yield "version.python", platform.python_version()
    yield "version.build", tf.version.GIT_VERSION
    for package in _PACKAGES:
        yield f"version.{package}", _version(package)
    for name, value in sorted(os.environ.items()):
        if name.startswith((*_READ, *_READ_TOO)) and name not in _OF_ONE_WORKER:
            yield f"env.{name}", value


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:  # such as tensorflow-cpu
        return getattr(sys.modules.get(package), "__version__", None)


def _of_hardware() -> Iterator[tuple[str, Any]]:
    import tensorflow as tf

    yield "hardware.cpus", cpus()
    yield "hardware.machine", platform.machine()
    for name, value in _processor().items():
        yield f"hardware.{name}", value
    gpus = tf.config.list_physical_devices("GPU")
    details = [tf.config.experimental.get_device_details(gpu) for gpu in gpus]
    yield "hardware.gpus", [str(each.get("device_name", "unknown")) for each in details]


def cpus() -> int | None:
    """How many this process may use: TensorFlow's own number of threads."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _processor() -> dict[str, str]:
    """The processor's model, and a digest of the instructions that it has."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    pairs = [line.partition(":") for line in lines]
    told = {name.strip(): value.strip() for name, _, value in reversed(pairs)}
    flags = hashlib.sha256(told.get("flags", "").encode()).hexdigest()[:12]
    return {"processor": told.get("model name", "unknown"), "instructions": flags}


def _plain(seed: Any) -> Any:
    return seed if seed is None else int(seed)
