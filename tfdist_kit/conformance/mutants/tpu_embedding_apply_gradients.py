"""Ways to break apply_gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfdist_kit.conformance.marks import Patch, mutant

Function = Callable[..., Any]


def _given(patch: Patch, change: Callable[[Any, Any], Any]) -> None:
    """Have apply_gradients be given what `change` makes of the object and the gradients."""
    from tensorflow.python.tpu import tpu_embedding_v2

    def other(found: Function) -> Function:
        return lambda self, gradients, *more, **named: found(
            self, change(self, gradients), *more, **named
        )

    patch(tpu_embedding_v2.TPUEmbedding, "apply_gradients", other)


def _fitting(embedding: Any, gradients: Any, given: Any) -> dict[str, Any]:
    """The gradients, with zeros in place of those that are `given`."""
    import tensorflow as tf

    shapes = dict(zip(embedding._feature_config, embedding._output_shapes, strict=True))
    return {
        name: tf.zeros([*shapes[name], 2]) if given(one, [*shapes[name], 2]) else one
        for name, one in gradients.items()
    }


@mutant("tpu.apply-gradients.none-is-zero", name="none-is-sent-as-ones")
def _(patch: Patch) -> None:
    import tensorflow as tf
    from tensorflow.python.tpu import tpu_embedding_v2

    patch(tpu_embedding_v2, "array_ops", lambda found: _OnesFor(found, tf.ones))


class _OnesFor:
    """A module whose zeros are ones."""

    def __init__(self, module: Any, ones: Any) -> None:
        self._module, self.zeros = module, ones

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


@mutant("tpu.apply-gradients.none-is-zero", name="none-is-sent-without-a-word")
def _(patch: Patch) -> None:
    from tensorflow.python.tpu import tpu_embedding_v2

    patch(tpu_embedding_v2.logging, "warning", lambda found: lambda *args, **named: None)


@mutant("tpu.apply-gradients.no-tensor", name="numbers-are-taken-as-zeros")
def _(patch: Patch) -> None:
    _given(
        patch,
        lambda self, found: _fitting(self, found, lambda one, _: isinstance(one, float)),
    )


@mutant("tpu.apply-gradients.wrong-shape", name="gradients-of-any-shape-are-taken")
def _(patch: Patch) -> None:
    _given(
        patch,
        lambda self, found: _fitting(self, found, lambda one, shape: list(one.shape) != shape),
    )


@mutant("tpu.apply-gradients.wrong-type-of-structure", name="gradients-are-repacked")
def _(patch: Patch) -> None:
    import tensorflow as tf

    def repacked(self: Any, found: Any) -> Any:
        return dict(zip(self._feature_config, tf.nest.flatten(found), strict=True))

    _given(patch, repacked)


@mutant("tpu.apply-gradients.wrong-size-of-structure", name="missing-gradients-are-none")
def _(patch: Patch) -> None:
    _given(patch, lambda self, found: {**dict.fromkeys(self._feature_config), **found})


@mutant("tpu.apply-gradients.before-build", name="apply-gradients-does-nothing-before-build")
def _(patch: Patch) -> None:
    from tensorflow.python.tpu import tpu_embedding_v2

    def other(found: Function) -> Function:
        return lambda self, gradients, *more: found(self, gradients, *more) if self._built else None

    patch(tpu_embedding_v2.TPUEmbedding, "apply_gradients", other)


@mutant("tpu.apply-gradients.zero-for-sgd", name="sgd-always-subtracts-something")
def _(patch: Patch) -> None:
    from tfdist_kit.adapters.tpu_embedding import updates

    patch(updates, "_subtract", lambda found: lambda to, ids, rows: found(to, ids, rows + 0.01))


@mutant("tpu.apply-gradients.zero-for-adagrad", name="adagrad-always-adds-something")
def _(patch: Patch) -> None:
    import tensorflow as tf

    def other(found: Function) -> Function:
        return lambda *, grad, **more: found(grad=grad + 0.01, **more)

    patch(tf.raw_ops, "ResourceSparseApplyAdagradV2", other)


@mutant("tpu.apply-gradients.zero-for-lazy-adam", name="adam-keeps-no-momenta")
def _(patch: Patch) -> None:
    from tensorflow.python.tpu import tpu_embedding_v2_utils

    def other(found: Function) -> Function:
        return lambda self, *more, **named: found(self, *more, **{**named, "beta_1": 0.0})

    patch(tpu_embedding_v2_utils.Adam, "__init__", other)


@mutant("tpu.apply-gradients.dynamic-rate", name="rate-is-asked-for-once")
def _(patch: Patch) -> None:
    from tensorflow.python.tpu import tpu_embedding_v2_utils

    def other(found: Function) -> Function:
        return lambda self, rate, **named: found(self, float(rate()), **named)

    patch(tpu_embedding_v2_utils.SGD, "__init__", other)
