"""What a test changes in its process that another test there would meet.

    snapshot -> a test -> left_behind: empty, or what makes the process unfit for the next test

Modules stay imported, and TensorFlow initialised: that is what warm workers are for.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tfdist_kit.testing.worker import this_worker

# The import of TensorFlow sets these, a strategy and pytest the others.
_MADE_BY_IMPORTS = (
    *("ENABLE_RUNTIME_UPTIME_TELEMETRY", "HDF5_", "KMP_", "TF2_BEHAVIOR", "TPU_ML_"),
    *("COV_", "PYTEST_", "no_grpc_proxy"),
)
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM)


def snapshot() -> Mapping[str, Any]:
    """The process as it is now."""
    return {name: probe() for name, probe in _PROBES.items()}


def left_behind(before: Mapping[str, Any]) -> str:
    """What is different now, in words; empty if nothing is."""
    changed = [name for name, probe in _PROBES.items() if probe() != before[name]]
    return ", ".join([*changed, *_of_tensorflow(), *_of_keras()])


def _variables() -> dict[str, str]:
    return {
        name: value for name, value in os.environ.items() if not name.startswith(_MADE_BY_IMPORTS)
    }


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


def _streams() -> list[Any]:
    """The standard streams, and whether something still lies under them."""
    streams = (sys.stdout, sys.stderr)
    found: list[Any] = [(stream, getattr(stream, "closed", None)) for stream in streams]
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            found.append(number)
    return found


def _numpy() -> Any:
    """How NumPy takes errors; as it is at its start where it is not imported."""
    numpy = sys.modules.get("numpy")
    fallback = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}
    return fallback if numpy is None else numpy.geterr()


_PROBES: Mapping[str, Callable[[], Any]] = {
    "environment variables": _variables,
    "the umask": _umask,
    "threads": lambda: set(threading.enumerate()),
    "timers": lambda: signal.getitimer(signal.ITIMER_REAL)[0] > 0,
    "standard streams": _streams,
    "NumPy's errors": _numpy,
    "signal handlers": lambda: [signal.getsignal(number) for number in _SIGNALS],
    "the level of logging": lambda: (logging.getLogger().level, logging.root.manager.disable),
}


def _of_tensorflow() -> Iterator[str]:
    """Settings of TensorFlow that are not as they are at its start."""
    tf = sys.modules.get("tensorflow")
    if tf is None:
        return
    if not tf.executing_eagerly():
        yield "graph mode"
    if tf.config.functions_run_eagerly():
        yield "functions that run eagerly"
    if tf.distribute.has_strategy():
        yield "a strategy that is still in use"
    if not tf.config.get_soft_device_placement():
        yield "no soft device placement"
    yield from _hidden_in_tensorflow()


def _hidden_in_tensorflow() -> Iterator[str]:
    """Those that TensorFlow has no public name for; whoever cannot be asked counts as changed."""
    context = sys.modules.get("tensorflow.python.eager.context")
    config = sys.modules.get("tensorflow.python.framework.config")
    try:
        if context is not None and context.global_seed() is not None:
            yield "TensorFlow's seed"
        if context is not None and _cannot_join(context.context()):
            yield "TensorFlow in use without a strategy"
        if config is not None and config.is_op_determinism_enabled():
            yield "deterministic operations"
    except AttributeError:
        yield "settings of this TensorFlow that cannot be told"


def _cannot_join(context: Any) -> bool:
    """Whether it is too late here for a strategy that spans several workers."""
    is_initialised = context._context_handle is not None
    has_joined = context._collective_ops_server_def is not None
    return this_worker().size > 1 and is_initialised and not has_joined


def _of_keras() -> Iterator[str]:
    keras = sys.modules.get("keras")
    config = getattr(keras, "config", None)
    if config is None:
        return
    if config.dtype_policy().name != "float32" or config.floatx() != "float32":
        yield "Keras' dtype policy"
    if config.image_data_format() != "channels_last":
        yield "Keras' image format"
