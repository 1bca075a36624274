"""What the mutants of enable_op_determinism share."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from tfdist_kit.conformance.marks import Patch

Function = Callable[..., Any]


def unheard(patch: Patch) -> None:
    """Have the switch do nothing."""
    import tensorflow as tf

    patch(tf.config.experimental, "enable_op_determinism", lambda found: lambda: None)


def on_from_the_start() -> None:
    """Have determinism be on before anybody has switched it on."""
    from tensorflow.python.framework import config

    config.enable_op_determinism()


def chance() -> int:
    """A number that is another one each time."""
    return int.from_bytes(os.urandom(3), "big")


def seeded_by_chance(patch: Patch, utils: Any) -> None:
    """Have set_random_seed take another seed than it is given."""

    def other(found: Function) -> Function:
        return lambda seed: found(chance())

    patch(utils, "set_random_seed", other)


def noisy(patch: Patch, owner: Any, name: str) -> None:
    """Have a function's result be another one each time."""

    def other(found: Function) -> Function:
        def with_noise(*args: Any, **kwargs: Any) -> Any:
            return found(*args, **kwargs) + chance() / 2**20

        return with_noise

    patch(owner, name, other)


def without_state(patch: Patch) -> None:
    """Have a generator draw by stateless ops."""
    import tensorflow as tf

    def other(found: Function) -> Function:
        return lambda self, shape: tf.random.stateless_uniform(shape, [1, 2])

    patch(tf.random.Generator, "uniform", other)


def with_state(patch: Patch, name: str) -> None:
    """Have a function of tf.random draw by a generator."""
    import tensorflow as tf

    made: list[Any] = []

    def other(found: Function) -> Function:
        def draw(shape: Any, seed: Any = None) -> Any:
            with tf.init_scope():
                made.append(tf.random.Generator.from_seed(1))
            return made[-1].uniform(shape)

        return draw

    patch(tf.random, name, other)


def threads_fixed(patch: Patch) -> None:
    """Have ops run on two threads whatever is asked for."""
    import tensorflow as tf

    def other(found: Function) -> Function:
        return lambda number: found(2)

    patch(tf.config.threading, "set_intra_op_parallelism_threads", other)


def turned(patch: Patch, method: str) -> None:
    """Have a data set's method put its first element last."""
    from tensorflow.python.data.ops import dataset_ops

    def other(found: Function) -> Function:
        def made(self: Any, *args: Any, **kwargs: Any) -> Any:
            whole = found(self, *args, **kwargs)
            return whole.skip(1).concatenate(whole.take(1))

        return made

    patch(dataset_ops.DatasetV2, method, other)


def reduced_with(patch: Patch, added: Callable[[], float]) -> None:
    """Have what all replicas add up be another sum.

    Args:
        patch: Replaces.
        added: What is added to each sum.
    """
    import tensorflow as tf

    def other(found: Function) -> Function:
        def all_reduce(self: Any, *args: Any, **kwargs: Any) -> Any:
            return found(self, *args, **kwargs) + added()

        return all_reduce

    patch(tf.distribute.ReplicaContext, "all_reduce", other)
