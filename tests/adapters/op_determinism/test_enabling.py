"""Switching op determinism on: the seeds, the switch, and what is refused."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from tests.adapters.cluster import run_workers
from tests.adapters.op_determinism.hearing import hearing

HERE = "tests.adapters.op_determinism.test_enabling"


# In the worker


def draws() -> list[Any]:
    """A number from each source, and weights of each Keras."""
    import random

    import keras
    import numpy as np
    import tensorflow as tf
    import tf_keras

    layers = [package.layers.Dense(2) for package in (keras, tf_keras)]
    for layer in layers:
        layer.build((None, 3))
    return [
        random.random(),
        float(np.random.random()),
        float(tf.random.uniform([])),
        float(keras.random.uniform([])),
        *[layer.get_weights()[0].tolist() for layer in layers],
    ]


def check_seeds() -> dict[str, Any]:
    import tensorflow as tf
    import tf_keras  # noqa: F401  # it is seeded where the program has it
    from tensorflow.python.eager import context

    import tfdist_kit
    from tfdist_kit.adapters.op_determinism import disabled, is_enabled

    before = is_enabled()
    tfdist_kit.enable_op_determinism(7)
    found = {
        "before and after": [before, is_enabled()],
        "leaves TensorFlow uninitialised": context.context()._context_handle is None,
    }
    first = draws()
    tfdist_kit.enable_op_determinism(8)
    other = draws()
    tfdist_kit.enable_op_determinism(7)
    found["same"] = first == draws()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importlib.util, "find_spec", lambda name: None)
        tfdist_kit.enable_op_determinism(7)
        found["same without Keras"] = first[:3] == draws()[:3]
    found["all differ"] = all(one != two for one, two in zip(first, other, strict=True))
    with disabled():
        found["within"] = is_enabled()
        with disabled():
            pass
        found["still within"] = is_enabled()
    found["afterwards"] = is_enabled()
    with pytest.raises(KeyError), disabled():
        raise KeyError
    found["after an error"] = is_enabled()
    rows = tf.repeat(tf.random.uniform([1, 4]), 4096, 0) * tf.reshape(tf.range(4096.0), [-1, 1])

    def scattered() -> bytes:
        total = tf.Variable(tf.zeros([1, 4]))
        total.scatter_add(tf.IndexedSlices(rows, tf.zeros([4096], tf.int32)))
        return bytes(total.numpy().tobytes())

    found["sums"] = len({scattered() for _ in range(20)})
    return found


def check_given_seeds() -> list[Any]:
    """With None for a seed: none at all, TensorFlow's alone, and all."""
    import keras
    import tensorflow as tf

    from tfdist_kit import enable_op_determinism
    from tfdist_kit.adapters.op_determinism import is_enabled

    with pytest.raises(ValueError) as error:
        enable_op_determinism(None)
    found: list[Any] = [str(error.value).splitlines()[0], is_enabled()]
    for seed in (tf.random.set_seed, keras.utils.set_random_seed):
        seed(3)
        with hearing() as texts:
            enable_op_determinism(None)
        found.append(texts)
    tf.random.set_seed(3)
    first = float(tf.random.uniform([]))
    tf.random.set_seed(3)
    enable_op_determinism(None)
    return [*found, is_enabled(), first == float(tf.random.uniform([]))]


def check_arguments() -> list[str]:
    from tfdist_kit import UsageError, enable_op_determinism
    from tfdist_kit.adapters.op_determinism import is_enabled

    class ParameterServerStrategyV2:
        pass

    wrong: list[dict[str, Any]] = [
        *[{"seed": seed} for seed in (-1, 2**32, 1.5, "1", True)],
        *[{"seed": 1, name: "maybe"} for name in ("on_late", "on_known", "unseeded_numpy")],
        {"seed": 1, "strategy": ParameterServerStrategyV2()},
    ]
    texts = []
    for arguments in wrong:
        with pytest.raises(UsageError) as error:
            enable_op_determinism(**arguments)
        texts.append(str(error.value).splitlines()[0])
    assert not is_enabled()
    return texts


def check_names() -> dict[str, str]:
    """What each public name is, when all modules have been imported."""
    import pkgutil

    from tfdist_kit.adapters import op_determinism

    for module in pkgutil.iter_modules(op_determinism.__path__):
        importlib.import_module(f"{op_determinism.__name__}.{module.name}")
    return {name: type(getattr(op_determinism, name)).__name__ for name in op_determinism.__all__}


# In pytest


def alone(function: str, **kwargs: Any) -> Any:
    [found] = run_workers(f"{HERE}:{function}", workers=0, **kwargs)
    return found


def test_all_seeds_and_the_switch() -> None:
    assert alone("check_seeds") == {
        "before and after": [False, True],
        "leaves TensorFlow uninitialised": True,
        "same": True,
        "same without Keras": True,
        "all differ": True,
        "within": False,
        "still within": False,
        "afterwards": True,
        "after an error": True,
        "sums": 1,
    }


def test_no_public_name_is_hidden_by_a_module() -> None:
    assert "module" not in set(alone("check_names").values())


def test_seeds_that_the_program_has_set_itself() -> None:
    none, on, [keras_unseeded], all_seeded, on_then, kept = alone("check_given_seeds")
    assert (none, on) == ("TFD001: seed is None, and TensorFlow has no seed", False)
    assert "Keras 3 draws weights and dropout from Python's random" in keras_unseeded
    assert (all_seeded, on_then, kept) == ([], True, True)


def test_wrong_arguments_are_refused_before_anything_is_changed() -> None:
    assert alone("check_arguments") == [
        *[f"TFD001: seed is {seed}" for seed in (-1, 2**32, 1.5, "'1'", True)],
        *[f"TFD001: {name} is 'maybe'" for name in ("on_late", "on_known", "unseeded_numpy")],
        "TFD001: determinism was not enabled: strategy is a ParameterServerStrategy, whose steps "
        "run in no fixed order",
    ]
