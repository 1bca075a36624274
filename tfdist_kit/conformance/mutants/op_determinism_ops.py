"""Ways to break what the switch does for ops and random numbers."""

from __future__ import annotations

from typing import Any

from tfdist_kit.conformance.marks import Patch, mutant
from tfdist_kit.conformance.mutants._determinism import noisy, on_from_the_start, unheard


@mutant("determinism.switch.signature", name="switch-returns-something")
def _(patch: Patch) -> None:
    import tensorflow as tf

    patch(tf.config.experimental, "enable_op_determinism", lambda found: lambda: True)


@mutant("determinism.switch.off-by-default", name="switch-is-on-from-the-start")
def _(patch: Patch) -> None:
    on_from_the_start()


@mutant("determinism.ops.same-bits", name="ops-do-not-hear-the-switch")
def _(patch: Patch) -> None:
    unheard(patch)


@mutant("determinism.ops.may-differ-without", name="ops-are-always-steady")
def _(patch: Patch) -> None:
    on_from_the_start()


@mutant("determinism.ops.another-algorithm", name="cross-entropy-keeps-its-algorithm")
def _(patch: Patch) -> None:
    from tensorflow.python.framework import config

    patch(config, "is_op_determinism_enabled", lambda found: lambda: False)


@mutant("determinism.ops.gpu-threads", name="gpu-does-not-hear-the-switch")
def _(patch: Patch) -> None:
    unheard(patch)


@mutant("determinism.errors.unimplemented", name="xla-does-not-hear-the-switch")
def _(patch: Patch) -> None:
    unheard(patch)


@mutant("determinism.errors.unimplemented-on-gpu", name="gpu-ops-refuse-nothing")
def _(patch: Patch) -> None:
    unheard(patch)


@mutant("determinism.errors.not-all-raise", name="bincount-with-weights-raises")
def _(patch: Patch) -> None:
    import tensorflow as tf

    def bincount(*args: Any, **kwargs: Any) -> None:
        raise tf.errors.UnimplementedError(None, None, "no deterministic implementation")

    patch(tf.math, "bincount", lambda found: bincount)


@mutant("determinism.example.cross-entropy", name="cross-entropy-has-noise")
def _(patch: Patch) -> None:
    import tensorflow as tf

    noisy(patch, tf.nn, "softmax_cross_entropy_with_logits")


@mutant("determinism.details.same-state", name="sparse-read-has-noise")
def _(patch: Patch) -> None:
    from tensorflow.python.ops import resource_variable_ops

    noisy(patch, resource_variable_ops.BaseResourceVariable, "sparse_read")


@mutant("determinism.details.side-effects", name="scatter-add-does-not-hear-the-switch")
def _(patch: Patch) -> None:
    unheard(patch)


@mutant("determinism.details.unseeded-raises", name="unseeded-ops-get-a-seed")
def _(patch: Patch) -> None:
    from tensorflow.python.framework import random_seed

    patch(random_seed, "get_seed", lambda found: lambda op_seed: (1, 1))


@mutant("determinism.details.unseeded-generators-raise", name="global-generator-is-seeded")
def _(patch: Patch) -> None:
    import tensorflow as tf

    def seeded() -> Any:
        return tf.random.Generator.from_seed(1)

    patch(tf.random, "get_global_generator", lambda found: seeded)


@mutant("determinism.details.python-and-numpy-silent", name="numpy-wants-a-seed")
def _(patch: Patch) -> None:
    import numpy as np

    def refused(*shape: int) -> None:
        raise RuntimeError("set a seed")

    patch(np.random, "rand", lambda found: refused)
