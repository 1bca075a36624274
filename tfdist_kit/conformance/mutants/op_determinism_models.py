"""Ways to break what is the same in each run of a program, and what it depends on."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from tfdist_kit.conformance.marks import Patch, mutant
from tfdist_kit.conformance.mutants._determinism import (
    chance,
    reduced_with,
    seeded_by_chance,
    threads_fixed,
    unheard,
)

Function = Callable[..., Any]


@mutant("determinism.recipe.two-lines", name="seed-is-drawn-by-chance")
def _(patch: Patch) -> None:
    import tensorflow as tf

    seeded_by_chance(patch, tf.keras.utils)


@mutant("determinism.recipe.sets-three-seeds", name="set-random-seed-forgets-numpy")
def _(patch: Patch) -> None:
    import numpy as np
    import tensorflow as tf

    def other(found: Function) -> Function:
        def seed_two(seed: int) -> None:
            found(seed)
            np.random.seed(None)

        return seed_two

    patch(tf.keras.utils, "set_random_seed", other)


@mutant("determinism.recipe.seeds-needed", name="runs-are-seeded-from-the-start")
def _(patch: Patch) -> None:
    from tensorflow.python.framework import random_seed

    patch(random_seed, "get_seed", lambda found: lambda op_seed: (1, 1))


@mutant("determinism.models.same-variables", name="keras-3-draws-its-seed-by-chance")
def _(patch: Patch) -> None:
    import keras

    seeded_by_chance(patch, keras.utils)


@mutant("determinism.models.same-variables-keras-2", name="keras-2-draws-its-seed-by-chance")
def _(patch: Patch) -> None:
    import tf_keras

    seeded_by_chance(patch, tf_keras.utils)


@mutant("determinism.models.same-outputs", name="loaded-model-has-noise")
def _(patch: Patch) -> None:
    import tensorflow as tf

    def other(found: Function) -> Function:
        def load(path: str) -> Any:
            model = found(path)
            call = model.call
            model.call = lambda images: call(images) + chance() / 2**20
            return model

        return load

    patch(tf.saved_model, "load", other)


@mutant("determinism.models.default-rng", name="default-rng-obeys-the-global-seed")
def _(patch: Patch) -> None:
    import numpy as np

    def other(found: Function) -> Function:
        return lambda: found(np.random.randint(2**31))

    patch(np.random, "default_rng", other)


@mutant("determinism.models.same-hardware", name="threads-are-always-two")
def _(patch: Patch) -> None:
    threads_fixed(patch)


@mutant("determinism.models.same-environment", name="environment-is-not-heard")
def _(patch: Patch) -> None:
    threads_fixed(patch)


@mutant("determinism.models.input-automatic", name="input-does-not-hear-the-switch")
def _(patch: Patch) -> None:
    unheard(patch)


@mutant("determinism.models.v1-session", name="session-runs-one-after-another")
def _(patch: Patch) -> None:
    import tensorflow as tf

    def other(found: Function) -> Function:
        def run(self: Any, fetches: Any) -> Any:
            if isinstance(fetches, list):
                return [found(self, fetch) for fetch in fetches]
            return found(self, fetches)

        return run

    patch(tf.compat.v1.Session, "run", other)


@mutant("determinism.models.parameter-server", name="coordinator-waits-for-each-step")
def _(patch: Patch) -> None:
    import tensorflow as tf

    def other(found: Function) -> Function:
        def schedule(self: Any, *args: Any) -> Any:
            result = found(self, *args)
            self.join()
            return result

        return schedule

    patch(tf.distribute.coordinator.ClusterCoordinator, "schedule", other)


@mutant("determinism.workers.two-repeat", name="workers-draw-their-seeds-by-chance")
def _(patch: Patch) -> None:
    import tensorflow as tf

    seeded_by_chance(patch, tf.keras.utils)


@mutant("determinism.workers.sums", name="sums-have-noise")
def _(patch: Patch) -> None:
    reduced_with(patch, lambda: chance() / 2**20)


@mutant("determinism.workers.same-weights", name="sums-are-other-ones-on-each-worker")
def _(patch: Patch) -> None:
    reduced_with(patch, lambda: float(os.environ["TFDIST_RANK"]))
