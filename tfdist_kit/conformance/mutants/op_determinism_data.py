"""Ways to break what the switch does to input pipelines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfdist_kit.conformance.marks import Patch, mutant
from tfdist_kit.conformance.mutants._determinism import (
    on_from_the_start,
    turned,
    unheard,
    with_state,
    without_state,
)

Function = Callable[..., Any]


@mutant("determinism.cost.slower", name="generator-costs-nothing")
def _(patch: Patch) -> None:
    without_state(patch)


@mutant("determinism.cost.orders-of-magnitude", name="generator-costs-nothing-in-128-threads")
def _(patch: Patch) -> None:
    without_state(patch)


@mutant("determinism.data.without-the-switch", name="pipelines-are-always-in-order")
def _(patch: Patch) -> None:
    on_from_the_start()


@mutant("determinism.data.map-argument", name="map-does-not-hear-the-switch")
def _(patch: Patch) -> None:
    unheard(patch)


@mutant("determinism.data.interleave-argument", name="interleave-puts-its-first-element-last")
def _(patch: Patch) -> None:
    turned(patch, "interleave")


@mutant("determinism.data.batch-argument", name="batch-puts-its-first-element-last")
def _(patch: Patch) -> None:
    turned(patch, "batch")


@mutant("determinism.data.option", name="option-does-not-hear-the-switch")
def _(patch: Patch) -> None:
    unheard(patch)


@mutant("determinism.data.random-interleave", name="random-op-has-no-state")
def _(patch: Patch) -> None:
    import tensorflow as tf

    def stateless(shape: Any, seed: int) -> Any:
        return tf.random.stateless_uniform(shape, [seed, 2])

    patch(tf.random, "uniform", lambda found: stateless)


@mutant("determinism.data.stateful-map", name="table-has-no-state")
def _(patch: Patch) -> None:
    import tensorflow as tf

    patch(tf.lookup.StaticHashTable, "lookup", lambda found: lambda self, keys: 0 * keys)


@mutant("determinism.data.stateful-interleave", name="interleave-does-not-hear-the-switch")
def _(patch: Patch) -> None:
    unheard(patch)


@mutant("determinism.data.prefetch", name="prefetch-does-not-hear-the-switch")
def _(patch: Patch) -> None:
    unheard(patch)


@mutant("determinism.data.all-serial", name="other-maps-do-not-hear-the-switch")
def _(patch: Patch) -> None:
    unheard(patch)


@mutant("determinism.data.not-only-its-own-map", name="generator-spares-the-others")
def _(patch: Patch) -> None:
    without_state(patch)


@mutant("determinism.data.legacy-random-spares", name="random-op-draws-by-a-generator")
def _(patch: Patch) -> None:
    with_state(patch, "uniform")


@mutant("determinism.data.hoisted-random-op", name="hoisted-random-op-draws-by-a-generator")
def _(patch: Patch) -> None:
    with_state(patch, "uniform")


@mutant("determinism.data.stateless-random", name="stateless-op-draws-by-a-generator")
def _(patch: Patch) -> None:
    with_state(patch, "stateless_uniform")


@mutant("determinism.data.other-stateful-ops", name="from-generator-has-no-state")
def _(patch: Patch) -> None:
    import tensorflow as tf

    def numbers(generator: Function, output_signature: Any) -> Any:
        return tf.data.Dataset.range(len(generator()))

    patch(tf.data.Dataset, "from_generator", lambda found: numbers)
