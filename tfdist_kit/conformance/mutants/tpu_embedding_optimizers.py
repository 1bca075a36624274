"""Ways to break the optimizers: slot variables, limits, formulas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfdist_kit.conformance.marks import Patch, mutant

Function = Callable[..., Any]


def _utils() -> Any:
    from tensorflow.python.tpu import tpu_embedding_v2_utils

    return tpu_embedding_v2_utils


def _begins(patch: Patch, kind: str, value: float) -> None:
    """Have all slot variables of an optimizer begin with another value."""
    import tensorflow as tf

    def initializers(self: Any) -> Any:
        return [tf.constant_initializer(value) for _ in self._slot_names()]

    patch(getattr(_utils(), kind), "_slot_initializers", lambda found: initializers)


def _made(patch: Patch, kind: str, change: Callable[[Any], None]) -> None:
    """Have something done to each optimizer of a kind that has been made."""

    def other(found: Function) -> Function:
        def make(self: Any, *args: Any, **named: Any) -> None:
            found(self, *args, **named)
            change(self)

        return make

    patch(getattr(_utils(), kind), "__init__", other)


def _given(patch: Patch, kind: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Have an optimizer be made of what `change` makes of the arguments with names."""

    def other(found: Function) -> Function:
        return lambda self, *args, **named: found(self, *args, **change(named))

    patch(getattr(_utils(), kind), "__init__", other)


def _kernel(patch: Patch, name: str, **instead: Any) -> None:
    """Have a kernel be given other arguments."""
    import tensorflow as tf

    patch(tf.raw_ops, name, lambda found: lambda **more: found(**{**more, **instead}))


@mutant("tpu.sgd.no-slots", name="sgd-has-a-slot-variable")
def _(patch: Patch) -> None:
    patch(_utils().SGD, "_slot_names", lambda found: lambda self: ["momenta"])
    _begins(patch, "SGD", 0.0)


@mutant("tpu.adagrad.slots", name="accumulators-begin-at-nothing")
def _(patch: Patch) -> None:
    _begins(patch, "Adagrad", 0.0)


@mutant("tpu.adagrad-momentum.slots", name="momenta-begin-at-one")
def _(patch: Patch) -> None:
    _begins(patch, "AdagradMomentum", 1.0)


@mutant("tpu.ftrl.slots", name="linears-begin-as-the-accumulators-do")
def _(patch: Patch) -> None:
    _begins(patch, "FTRL", 0.1)


@mutant("tpu.adam.slots", name="velocities-begin-at-one")
def _(patch: Patch) -> None:
    _begins(patch, "Adam", 1.0)


@mutant("tpu.adagrad.initial-accumulator", name="any-accumulator-may-be-the-first")
def _(patch: Patch) -> None:
    _given(patch, "Adagrad", lambda named: {})


@mutant("tpu.adagrad-momentum.limits", name="any-epsilon-and-exponent")
def _(patch: Patch) -> None:
    _given(patch, "AdagradMomentum", lambda named: {})


@mutant("tpu.adam.limits", name="betas-are-brought-into-range")
def _(patch: Patch) -> None:
    def ranged(named: dict[str, Any]) -> dict[str, Any]:
        return {
            name: min(max(value, 0.1), 0.9) if name.startswith("beta") else value
            for name, value in named.items()
        }

    _given(patch, "Adam", ranged)


@mutant("tpu.adam.not-lazy-accumulates", name="adam-accumulates-silently")
def _(patch: Patch) -> None:
    _given(patch, "Adam", lambda named: {**named, "use_gradient_accumulation": True})


@mutant("tpu.optimizers.clipvalue", name="one-number-clips-one-side")
def _(patch: Patch) -> None:
    def one_sided(self: Any) -> None:
        if self.clip_gradient_max is not None and self.clip_gradient_min == -self.clip_gradient_max:
            self.clip_gradient_min = None

    _made(patch, "_Optimizer", one_sided)


@mutant("tpu.optimizers.clipvalue-accumulates", name="clipvalue-is-dropped")
def _(patch: Patch) -> None:
    def other(found: Function) -> Function:
        return lambda self, rate, *more, **named: found(self, rate, True, *more[1:], **named)

    patch(_utils()._Optimizer, "__init__", other)


@mutant("tpu.optimizers.slot-creation", name="slot-creation-function-is-not-called")
def _(patch: Patch) -> None:
    def other(found: Function) -> Function:
        def create(self: Any, *args: Any, **named: Any) -> Any:
            self.slot_variable_creation_fn = None
            return found(self, *args, **named)

        return create

    patch(_utils()._WithSlotVariables, "_create_slots", other)


@mutant("tpu.optimizers.equal", name="optimizers-are-equal-to-themselves-alone")
def _(patch: Patch) -> None:
    patch(_utils()._WithSlotVariables, "__eq__", lambda found: lambda self, other: self is other)


@mutant("tpu.optimizers.equal", name="rates-do-not-count-for-equality")
def _(patch: Patch) -> None:
    patch(
        _utils()._WithSlotVariables,
        "__eq__",
        lambda found: lambda self, other: type(self) is type(other),
    )


@mutant("tpu.sgd.formula", name="sgd-goes-twice-as-far")
def _(patch: Patch) -> None:
    from tfdist_kit.adapters.tpu_embedding import updates

    patch(updates, "_subtract", lambda found: lambda to, ids, rows: found(to, ids, 2.0 * rows))


@mutant("tpu.adagrad.formula", name="adagrad-adds-an-epsilon")
def _(patch: Patch) -> None:
    _kernel(patch, "ResourceSparseApplyAdagradV2", epsilon=0.1)


@mutant("tpu.adagrad-momentum.formula", name="momentum-is-forgotten")
def _(patch: Patch) -> None:
    _given(patch, "AdagradMomentum", lambda named: {**named, "momentum": 0.0})


@mutant("tpu.ftrl.formula", name="ftrl-forgets-l1")
def _(patch: Patch) -> None:
    _kernel(patch, "ResourceSparseApplyFtrlV2", l1=0.0)


@mutant("tpu.ftrl.beta", name="ftrl-forgets-beta")
def _(patch: Patch) -> None:
    _given(patch, "FTRL", lambda named: {**named, "beta": 0.0})


@mutant("tpu.adam.formula", name="betas-are-swapped")
def _(patch: Patch) -> None:
    def swap(self: Any) -> None:
        self.beta_1, self.beta_2 = self.beta_2, self.beta_1

    _made(patch, "Adam", swap)


@mutant("tpu.adam.lazy", name="adam-is-never-lazy")
def _(patch: Patch) -> None:
    _given(patch, "Adam", lambda named: {**named, "lazy_adam": False})


@mutant("tpu.adam.not-lazy", name="adam-is-always-lazy")
def _(patch: Patch) -> None:
    _given(patch, "Adam", lambda named: {**named, "lazy_adam": True})


@mutant("tpu.adam.sum-inside-sqrt", name="sum-is-never-inside-the-root")
def _(patch: Patch) -> None:
    _given(patch, "Adam", lambda named: {**named, "sum_inside_sqrt": False})


@mutant("tpu.adam.no-bias-correction", name="first-step-is-corrected")
def _(patch: Patch) -> None:
    def corrected(self: Any) -> None:
        if not callable(self.learning_rate):
            self.learning_rate *= (1 - self.beta_2) ** 0.5 / (1 - self.beta_1)

    _made(patch, "Adam", corrected)


@mutant("tpu.optimizers.clipping-order", name="gradients-are-clipped-before-they-are-summed")
def _(patch: Patch) -> None:
    def twice(self: Any) -> None:
        if self.clip_gradient_max is not None:
            self.clip_gradient_max *= 2.0

    _made(patch, "SGD", twice)


@mutant("tpu.optimizers.clipping-order", name="weights-are-clipped-by-the-gradients-limits")
def _(patch: Patch) -> None:
    def same(self: Any) -> None:
        self.clip_weight_min, self.clip_weight_max = self.clip_gradient_min, self.clip_gradient_max

    _made(patch, "SGD", same)
