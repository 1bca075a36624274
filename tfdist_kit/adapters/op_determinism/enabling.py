"""Switches op determinism on, whole or not at all.

arguments -> is it too late for something? -> all seeds -> TensorFlow's switch
    -> what it does not reach is watched -> (with a strategy) all workers compare
"""

from __future__ import annotations

import importlib.util
import logging
import os
import random
import sys
from typing import Any, Literal, get_args

from tfdist_kit._errors import UsageError
from tfdist_kit.adapters._private import private
from tfdist_kit.adapters.op_determinism import known, silent
from tfdist_kit.adapters.op_determinism.comparing import compare_workers
from tfdist_kit.adapters.op_determinism.late import late_things, unknown_things

OnLate = Literal["refuse", "warn"]
OnKnown = Literal["refuse", "warn"]
UnseededNumpy = Literal["refuse", "warn", "allow"]

LARGEST_SEED = 2**32 - 1
"""NumPy takes no larger one."""
_log = logging.getLogger("tfdist_kit.adapters.op_determinism")


def enable_op_determinism(
    seed: int | None,
    *,
    strategy: Any = None,
    on_late: OnLate = "refuse",
    on_known: OnKnown = "warn",
    unseeded_numpy: UnseededNumpy = "warn",
) -> None:
    """Seed Python, NumPy, TensorFlow and Keras, and switch TensorFlow's op determinism on.

    Call it first in the program, with the same seed on all workers. The strategy may come after it.

    Args:
        seed: A number from 0 to 2**32-1. None if the program has set its seeds itself: they are
            left alone, and it is checked that there are any.
        strategy: If it exists already: a `tf.distribute.Strategy`. All workers then come to the
            same end, and compare themselves (see `preflight`). All of them must give it.
        on_late: What to do when something came before, which will not be deterministic: a
            function that was traced, a dataset that was read or made without a seed.
        on_known: What to do where the program uses an op that is not deterministic although the
            switch is on (see `KNOWN`).
        unseeded_numpy: What to do where the program makes a `numpy.random.default_rng` without a
            seed, as long as it calls it by that name.

    Raises:
        UsageError: An argument is wrong, something came before, TensorFlow has no seed, or the
            workers are not alike. Nothing was seeded or switched then, except where the workers
            are not alike.
        UnsupportedVersionError: TensorFlow's internals are not as expected.

    Source: https://www.tensorflow.org/api_docs/python/tf/config/experimental/enable_op_determinism
    """
    if strategy is None:
        _enable(seed, strategy, on_late, on_known, unseeded_numpy)
        return
    compare_workers(strategy, lambda: _enable(seed, strategy, on_late, on_known, unseeded_numpy))


def _enable(
    seed: int | None, strategy: Any, on_late: str, on_known: str, unseeded_numpy: str
) -> None:
    _check_arguments(seed, strategy, on_late, on_known, unseeded_numpy)
    _check_late(on_late)
    if seed is None:
        _check_seeds()
    else:
        _set_seeds(seed)
    import tensorflow as tf

    tf.config.experimental.enable_op_determinism()
    known.watch(on_known)
    silent.watch(unseeded_numpy)


def _check_arguments(
    seed: int | None, strategy: Any, on_late: str, on_known: str, unseeded_numpy: str
) -> None:
    for name, value, allowed in (
        ("on_late", on_late, get_args(OnLate)),
        ("on_known", on_known, get_args(OnKnown)),
        ("unseeded_numpy", unseeded_numpy, get_args(UnseededNumpy)),
    ):
        if value not in allowed:
            raise UsageError(f"{name} is {value!r}", hint=f"use one of {', '.join(allowed)}")
    is_int = isinstance(seed, int) and not isinstance(seed, bool)
    if seed is not None and not (is_int and 0 <= seed <= LARGEST_SEED):
        raise UsageError(f"seed is {seed!r}", hint=f"give an int from 0 to {LARGEST_SEED}")
    if silent.is_parameter_server(strategy):
        raise UsageError(
            "strategy is a ParameterServerStrategy, whose steps run in no fixed order",
            hint="use tfdist_kit.multi_worker_mirrored()",
        )


def _check_late(on_late: str) -> None:
    if unknown := unknown_things():
        _log.warning(
            "it cannot be known whether these were read before, and stay unordered: %s; hint: "
            "import tfdist_kit before TensorFlow is used",
            "; ".join(unknown),
        )
    if not (late := late_things()):
        return
    message = f"too late for all to be deterministic: {'; '.join(late)}"
    if on_late == "refuse":
        raise UsageError(message, hint="call enable_op_determinism first in the program")
    _log.warning("%s", message)


def _check_seeds() -> None:
    if private("tensorflow.python.eager.context", "global_seed")() is None:
        raise UsageError(
            "seed is None, and TensorFlow has no seed",
            hint="give a seed, or call keras.utils.set_random_seed before",
        )
    silent.warn_of_unseeded_keras()


def _set_seeds(seed: int) -> None:
    import numpy as np
    import tensorflow as tf

    random.seed(seed)
    np.random.seed(seed)
    tf.random.set_seed(seed)
    if importlib.util.find_spec("keras") is not None:
        import keras

        keras.utils.set_random_seed(seed)
    if "tf_keras" in sys.modules or os.environ.get("TF_USE_LEGACY_KERAS", "0") != "0":
        import tf_keras

        tf_keras.utils.set_random_seed(seed)
