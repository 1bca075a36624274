"""What TensorFlow's documents exclude, and TensorFlow itself is silent about: told at the call.

ParameterServerStrategy, a v1 Session, numpy.random.default_rng without a seed
    -> wrapped when determinism is switched on -> the program makes one -> a warning
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from tfdist_kit.adapters.op_determinism.switch import is_enabled
from tfdist_kit.adapters.op_determinism.telling import tell

_SERVERS = (
    "tf.distribute.ParameterServerStrategy is not deterministic: its steps run in no fixed order",
    "use tfdist_kit.multi_worker_mirrored()",
)
_SESSION = (
    "tf.compat.v1.Session is not deterministic: ops that do not depend on each other run in any "
    "order",
    "use eager code and tf.function, or tf.control_dependencies between ops that share a state",
)
_GENERATOR = (
    "numpy.random.default_rng() without a seed is another generator in every run: numpy's global "
    "seed does not reach it",
    "give it a seed",
)
_KERAS = (
    "Keras 3 draws weights and dropout from Python's random, which tf.random.set_seed does not "
    "seed: every run is another",
    "give enable_op_determinism a seed, or call keras.utils.set_random_seed before",
)
_KERAS_RNG = "keras.src.utils.rng_utils"


def watch(unseeded_numpy: str) -> None:
    """Tell of each where the program makes one; for good, and only while the switch is on.

    Args:
        unseeded_numpy: ``"warn"``, ``"refuse"`` or ``"allow"`` a NumPy generator without a seed.
    """
    import numpy as np
    import tensorflow as tf

    v1 = tf.compat.v1
    for owner in (
        tf.distribute.ParameterServerStrategy,
        v1.distribute.experimental.ParameterServerStrategy,
    ):
        owner.__init__ = _watched(owner.__init__, lambda *_, **__: tell(*_SERVERS, refuses=False))
    for owner in (v1.Session, v1.InteractiveSession):
        owner.__init__ = _watched(owner.__init__, lambda *_, **__: tell(*_SESSION, refuses=False))

    def look(seed: Any = None) -> None:
        if seed is None and unseeded_numpy != "allow":
            tell(*_GENERATOR, refuses=unseeded_numpy == "refuse")

    np.random.default_rng = _watched(np.random.default_rng, look)


def is_parameter_server(strategy: Any) -> bool:
    """Whether a strategy trains with parameter servers."""
    return "ParameterServerStrategy" in {
        kind.__name__.rstrip("V12") for kind in type(strategy).__mro__
    }


def keras_is_unseeded() -> bool:
    """Whether Keras 3 is loaded and nobody has seeded it, as far as it can tell.

    It draws from Python's `random`, which `tf.random.set_seed` does not seed.
    """
    seeded = getattr(sys.modules.get(_KERAS_RNG), "get_random_seed", None)
    return seeded is not None and seeded() is None


def warn_of_unseeded_keras() -> None:
    """Tell of a Keras 3 that only `tf.random.set_seed` has seeded."""
    if keras_is_unseeded():
        tell(*_KERAS, refuses=False)


def _watched(original: Callable[..., Any], look: Callable[..., None]) -> Callable[..., Any]:
    original = getattr(original, "tfdist_original", original)

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if is_enabled():
            look(*args, **kwargs)
        return original(*args, **kwargs)

    call.tfdist_original = original  # type: ignore[attr-defined]
    return call
