"""The optimizers: their slot variables, their parameters, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from tfdist_kit.conformance.checks.tpu_embedding._saving import (
    DIM,
    OPTIMIZERS,
    ROWS,
    config,
    optimizer,
    values,
)
from tfdist_kit.conformance.checks.tpu_embedding._traced import PLAIN
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject

pytestmark = pytest.mark.tfdist(workers=1, timeout=60)


def _begins(subject: Subject, made: Any) -> dict[str, float]:
    """What each slot variable of a new table holds everywhere."""
    found = values(subject.make_embedding(config(), made))
    assert found.pop("parameters") == [[0.0] * DIM] * ROWS
    for name, rows in found.items():
        assert rows == [[rows[0][0]] * DIM] * ROWS, name
    return {name: rows[0][0] for name, rows in found.items()}


def _is(found: dict[str, float], **wanted: float) -> None:
    assert found == pytest.approx(wanted, rel=1e-6)


@claim("tpu.sgd.no-slots")
def test_sgd(subject: Subject) -> None:
    assert _begins(subject, optimizer("SGD")) == {}
    assert optimizer("SGD").learning_rate == 0.01


@claim("tpu.adagrad.slots")
def test_adagrad(subject: Subject) -> None:
    _is(_begins(subject, optimizer("Adagrad")), accumulators=0.1)
    _is(_begins(subject, optimizer("Adagrad", initial_accumulator_value=2.0)), accumulators=2.0)
    assert optimizer("Adagrad").learning_rate == 0.001


@claim("tpu.adagrad-momentum.slots")
def test_adagrad_momentum(subject: Subject) -> None:
    _is(_begins(subject, optimizer("AdagradMomentum")), accumulators=0.0, momenta=0.0)
    assert optimizer("AdagradMomentum").learning_rate == 0.001


@claim("tpu.ftrl.slots")
def test_ftrl(subject: Subject) -> None:
    _is(_begins(subject, optimizer("FTRL")), accumulators=0.1, linears=0.0)
    assert optimizer("FTRL").learning_rate == 0.001


@claim("tpu.adam.slots")
def test_adam(subject: Subject) -> None:
    _is(_begins(subject, optimizer("Adam")), momenta=0.0, velocities=0.0)
    assert optimizer("Adam").learning_rate == 0.001


@claim("tpu.adagrad.initial-accumulator")
def test_adagrads_initial_accumulator() -> None:
    assert optimizer("Adagrad", initial_accumulator_value=0.01)
    for wrong in (0.0, -1.0):
        with pytest.raises(ValueError, match="initial_accumulator_value"):
            optimizer("Adagrad", initial_accumulator_value=wrong)


@claim("tpu.adagrad-momentum.limits")
def test_adagrad_momentums_limits() -> None:
    assert optimizer("AdagradMomentum", epsilon=0.01, exponent=0.5)
    for name in ("epsilon", "exponent"):
        for wrong in (0.0, -1.0):
            with pytest.raises(ValueError, match=name):
                optimizer("AdagradMomentum", **{name: wrong})


@claim("tpu.adagrad-momentum.epsilon-is-the-beginning")
def test_adagrad_momentums_epsilon(subject: Subject) -> None:
    begins = _begins(subject, optimizer("AdagradMomentum", epsilon=0.5))["accumulators"]
    assert begins == 0.5, f"the accumulators begin at {begins:g}"


@claim("tpu.ftrl.zero-accumulator")
def test_ftrls_zero_accumulator() -> None:
    made = optimizer("FTRL", initial_accumulator_value=0.0, allow_zero_accumulator=True)
    assert made.initial_accumulator_value == 0.0


@claim("tpu.ftrl.power")
def test_ftrls_power(subject: Subject) -> None:
    assert subject.make_embedding(config(), optimizer("FTRL", learning_rate_power=0.0))
    with pytest.raises(ValueError, match="learning_rate_power"):
        subject.make_embedding(config(), optimizer("FTRL", learning_rate_power=0.5))


@claim("tpu.ftrl.regularization")
def test_ftrls_regularization(subject: Subject) -> None:
    for name in ("l1_regularization_strength", "l2_regularization_strength"):
        assert subject.make_embedding(config(), optimizer("FTRL", **{name: 0.5}))
        with pytest.raises(ValueError, match=name):
            subject.make_embedding(config(), optimizer("FTRL", **{name: -1.0}))


@claim("tpu.adam.limits")
def test_adams_limits() -> None:
    assert optimizer("Adam", beta_1=0.0, beta_2=0.0, epsilon=0.5)
    wrong = {"beta_1": (-0.1, 1.0), "beta_2": (-0.1, 1.0), "epsilon": (0.0, -1.0)}
    for name, numbers in wrong.items():
        for number in numbers:
            with pytest.raises(ValueError, match=name):
                optimizer("Adam", **{name: number})


@claim("tpu.adam.not-lazy-accumulates")
def test_adam_that_is_not_lazy() -> None:
    assert optimizer("Adam", lazy_adam=False)
    assert optimizer("Adam", use_gradient_accumulation=False)
    with pytest.raises(ValueError, match="gradient accumulation must be used"):
        optimizer("Adam", lazy_adam=False, use_gradient_accumulation=False)


def _limits(clipvalue: Any) -> list[float | None]:
    """The limits of gradients that the engine is told, None where there is none."""
    from tensorflow.core.protobuf.tpu import optimization_parameters_pb2

    parameters = optimization_parameters_pb2.OptimizationParameters()
    optimizer("SGD", clipvalue=clipvalue, **PLAIN)._set_optimization_parameters(parameters)
    limits = parameters.gradient_clipping_limits
    return [
        getattr(limits, side).value if limits.HasField(side) else None
        for side in ("lower", "upper")
    ]


@claim("tpu.optimizers.clipvalue")
def test_clipvalue() -> None:
    assert _limits(0.5) == [-0.5, 0.5]
    assert _limits((-0.25, 0.5)) == [-0.25, 0.5]
    assert _limits((None, 0.5)) == [None, 0.5]
    assert _limits((-0.5, None)) == [-0.5, None]
    assert _limits(None) == [None, None]


@claim("tpu.optimizers.clipvalue-is-positive")
def test_clipvalue_is_positive(subject: Subject) -> None:
    assert subject.make_embedding(config(), optimizer("SGD", clipvalue=0.5))
    with pytest.raises(ValueError, match="clipvalue"):
        subject.make_embedding(config(), optimizer("SGD", clipvalue=-0.5))


@claim("tpu.optimizers.clipvalue-accumulates")
def test_clipvalue_accumulates() -> None:
    for name in OPTIMIZERS:
        with pytest.raises(ValueError, match="clipvalue"):
            optimizer(name, clipvalue=0.5, use_gradient_accumulation=False)


@claim("tpu.optimizers.slot-creation")
def test_slot_creation(subject: Subject) -> None:
    import tensorflow as tf

    asked = []

    def create(table: Any, names: Any, initializers: Any) -> Any:
        asked.append((table.shape.as_list(), list(names), [one([1]) for one in initializers]))
        return {name: tf.Variable(tf.fill(table.shape, 7.0)) for name in names}

    made = optimizer("Adagrad", slot_variable_creation_fn=create)
    assert _begins(subject, made) == {"accumulators": 7.0}
    [(shape, names, [first])] = asked
    assert (shape, names) == ([ROWS, DIM], ["accumulators"])
    assert first.numpy() == pytest.approx([0.1])
    with pytest.raises(ValueError, match="slot_variable_creation_fn"):
        optimizer("Adagrad", slot_variable_creation_fn="zeros")


@claim("tpu.optimizers.equal")
def test_equal() -> None:
    for name in OPTIMIZERS:
        one, same, other = optimizer(name, 0.5), optimizer(name, 0.5), optimizer(name, 0.25)
        assert one == same
        assert hash(one) == hash(same)
        assert one != other
        assert len({one, same, other}) == 2
    assert optimizer("SGD", 0.5) != optimizer("Adagrad", 0.5)


@claim("tpu.optimizers.custom-optimizer")
def test_custom_optimizer(subject: Subject) -> None:
    import tensorflow as tf

    made = optimizer(
        "CustomOptimizer",
        lambda gradient, table, *_: table - gradient,
        slot_names=["counts"],
        slot_initializers=[tf.zeros_initializer()],
    )
    with pytest.raises((ValueError, NotImplementedError)):
        assert subject.make_embedding(config(), made).embedding_tables
