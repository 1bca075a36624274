"""Where steps take the tables, held against the published formulas in NumPy."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfdist_kit.conformance.checks.tpu_embedding import _numbers
from tfdist_kit.conformance.checks.tpu_embedding._numbers import Feature
from tfdist_kit.conformance.checks.tpu_embedding._saving import optimizer
from tfdist_kit.conformance.checks.tpu_embedding._training import (
    SHAPES,
    begin,
    follows,
    training,
)
from tfdist_kit.conformance.marks import claim
from tfdist_kit.conformance.subjects import Subject

pytestmark = pytest.mark.tfdist(workers=1, timeout=60)

ONE = {"who": Feature("user", [[0], [2]], combiner="sum")}
"""A batch that looks up the rows 0 and 2 of a table of four."""
BEGIN = begin(SHAPES["user"])


def _zero(activations: Any) -> Any:
    import tensorflow as tf

    return tf.nest.map_structure(tf.zeros_like, activations)


def _table(subject: Subject, folder: Path, made: Any, *gradients: Any) -> Any:
    """A table after a step of `ONE` for each function of its gradients."""
    trained = training(subject, ONE, made)
    for each in gradients:
        trained.step(ONE, each)
    return trained.held(folder)["user"]["parameters"]


@claim("tpu.sgd.formula")
def test_sgd(subject: Subject, tmp_path: Path) -> None:
    follows(subject, tmp_path, optimizer("SGD", 0.1), partial(_numbers.sgd, rate=0.1))


@claim("tpu.adagrad.formula")
def test_adagrad(subject: Subject, tmp_path: Path) -> None:
    follows(subject, tmp_path, optimizer("Adagrad", 0.1), partial(_numbers.adagrad, rate=0.1))


@claim("tpu.adagrad-momentum.formula")
@pytest.mark.parametrize("nesterov", [False, True])
def test_adagrad_momentum(subject: Subject, tmp_path: Path, nesterov: bool) -> None:
    made = optimizer("AdagradMomentum", 0.1, momentum=0.8, use_nesterov=nesterov, epsilon=1e-3)
    rule = partial(
        _numbers.adagrad_momentum, rate=0.1, momentum=0.8, nesterov=nesterov, epsilon=1e-3
    )
    follows(subject, tmp_path, made, rule)


@claim("tpu.adagrad-momentum.formula")
def test_adagrad_momentum_of_averages(subject: Subject, tmp_path: Path) -> None:
    made = optimizer("AdagradMomentum", 0.1, momentum=0.5, exponent=3.0, beta2=0.9, epsilon=0.01)
    rule = partial(
        _numbers.adagrad_momentum, rate=0.1, momentum=0.5, exponent=3.0, beta2=0.9, epsilon=0.01
    )
    follows(subject, tmp_path, made, rule)


@claim("tpu.ftrl.formula")
def test_ftrl(subject: Subject, tmp_path: Path) -> None:
    made = optimizer(
        "FTRL",
        0.1,
        learning_rate_power=-0.7,
        l1_regularization_strength=0.6,
        l2_regularization_strength=0.3,
    )
    rule = partial(_numbers.ftrl, rate=0.1, power=-0.7, l1=0.6, l2=0.3)
    found = follows(subject, tmp_path, made, rule)
    assert (found["film"]["parameters"] == 0.0).any(), "l1 has kept nothing at zero"


@claim("tpu.ftrl.beta")
def test_ftrls_beta(subject: Subject, tmp_path: Path) -> None:
    rule = partial(_numbers.ftrl, rate=0.1, l1=0.02, beta=0.4)
    made = optimizer("FTRL", 0.1, l1_regularization_strength=0.02, beta=0.4)
    found = follows(subject, tmp_path / "beta", made, rule)
    as_l2 = {"l1_regularization_strength": 0.02, "l2_regularization_strength": 0.4 / (2 * 0.1)}
    other = follows(subject, tmp_path / "l2", optimizer("FTRL", 0.1, **as_l2), rule)
    for table, state in found.items():
        assert state["parameters"] == pytest.approx(other[table]["parameters"], abs=1e-5)


@claim("tpu.ftrl.beta")
def test_ftrls_linears_times_the_rate(subject: Subject, tmp_path: Path) -> None:
    both = {"l1_regularization_strength": 0.02, "beta": 0.4}
    rule = partial(_numbers.ftrl, rate=0.1, l1=0.02, beta=0.4)
    plain = follows(subject, tmp_path / "plain", optimizer("FTRL", 0.1, **both), rule)
    times = optimizer("FTRL", 0.1, multiply_linear_by_learning_rate=True, **both)
    found = follows(subject, tmp_path / "times", times, partial(rule, times_rate=True))
    for table, state in plain.items():
        assert state["parameters"] == pytest.approx(found[table]["parameters"], abs=1e-4)


@claim("tpu.adam.formula")
def test_adam(subject: Subject, tmp_path: Path) -> None:
    made = optimizer("Adam", 0.01, beta_1=0.8, beta_2=0.95)
    follows(subject, tmp_path, made, partial(_numbers.adam, rate=0.01, beta_1=0.8, beta_2=0.95))


@claim("tpu.adam.lazy")
def test_lazy(subject: Subject, tmp_path: Path) -> None:
    trained = training(subject, ONE, optimizer("Adam", 0.1))
    others = {"who": Feature("user", [[1], [3]], combiner="sum")}
    trained.step(others)
    before = trained.held(tmp_path / "before")["user"]
    trained.step(ONE)
    after = trained.held(tmp_path / "after")["user"]
    for slot, values in before.items():
        assert after[slot][[1, 3]].tolist() == values[[1, 3]].tolist(), slot
        assert (after[slot][[0, 2]] != values[[0, 2]]).all(), slot


@claim("tpu.adam.not-lazy")
@pytest.mark.parametrize("inside", [False, True])
def test_not_lazy(subject: Subject, tmp_path: Path, inside: bool) -> None:
    made = optimizer("Adam", 0.01, lazy_adam=False, sum_inside_sqrt=inside, epsilon=0.01)
    rule = partial(_numbers.adam, rate=0.01, lazy=False, inside=inside, epsilon=0.01)
    follows(subject, tmp_path / "formula", made, rule)
    table = {"who": Feature("user", [[1], [3]], combiner="sum")}
    trained = training(subject, ONE, optimizer("Adam", 0.1, lazy_adam=False))
    trained.step(table)
    before = trained.held(tmp_path / "before")["user"]["parameters"]
    trained.step(ONE)
    after = trained.held(tmp_path / "after")["user"]["parameters"]
    assert (after[[1, 3]] != before[[1, 3]]).all()


@claim("tpu.adam.sum-inside-sqrt")
def test_sum_inside_sqrt(subject: Subject, tmp_path: Path) -> None:
    found = []
    for inside in (False, True):
        made = optimizer("Adam", 0.01, epsilon=0.1, sum_inside_sqrt=inside)
        rule = partial(_numbers.adam, rate=0.01, epsilon=0.1, inside=inside)
        found.append(follows(subject, tmp_path / str(inside), made, rule)["film"]["parameters"])
    assert np.abs(found[0] - found[1]).max() > 1e-3


@claim("tpu.adam.no-bias-correction")
def test_no_bias_correction(subject: Subject, tmp_path: Path) -> None:
    import tensorflow as tf

    betas = {"beta_1": 0.9, "beta_2": 0.999}
    plain = _table(subject, tmp_path / "plain", optimizer("Adam", 0.01, **betas), _ones)
    wanted = 0.01 * 0.1 / np.sqrt(0.001)
    assert (BEGIN - plain)[0] == pytest.approx([wanted] * 3, rel=1e-3)
    rate = tf.Variable(0.0)
    made = optimizer("Adam", lambda: rate, **betas)
    trained = training(subject, ONE, made)
    for step in (1, 2, 3):
        rate.assign(0.01 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step))
        trained.step(ONE, _ones)
    after = trained.held(tmp_path / "corrected")["user"]["parameters"]
    assert (BEGIN - after)[0] == pytest.approx([3 * 0.01] * 3, rel=1e-3)


def _ones(activations: Any) -> Any:
    import tensorflow as tf

    return tf.nest.map_structure(tf.ones_like, activations)


@claim("tpu.apply-gradients.zero-for-sgd")
def test_zero_for_sgd(subject: Subject, tmp_path: Path) -> None:
    _zero_changes_nothing(subject, tmp_path, "SGD")


@claim("tpu.apply-gradients.zero-for-adagrad")
def test_zero_for_adagrad(subject: Subject, tmp_path: Path) -> None:
    _zero_changes_nothing(subject, tmp_path, "Adagrad")


def _zero_changes_nothing(subject: Subject, folder: Path, kind: str) -> None:
    """For a gradient of zeros and for None; and what is no zero does change the table."""
    trained = training(subject, ONE, optimizer(kind, 0.1))
    trained.step(ONE, _ones)
    before = trained.held(folder / "before")["user"]
    assert (before["parameters"] != BEGIN).any()
    trained.step(ONE, _zero)
    trained.step(ONE, lambda _: {"who": None})
    after = trained.held(folder / "after")["user"]
    for slot, values in before.items():
        assert after[slot].tolist() == values.tolist(), slot


def _moved_by_zero(subject: Subject, folder: Path, made: Any) -> Any:
    """Which rows a gradient of zeros moves after a step with another gradient."""
    before = _table(subject, folder / "before", made, _ones)
    after = _table(subject, folder / "after", made, _ones, _zero)
    return (after != before).all(axis=1).tolist()


@claim("tpu.apply-gradients.zero-for-lazy-adam")
def test_zero_for_lazy_adam(subject: Subject, tmp_path: Path) -> None:
    moved = _moved_by_zero(subject, tmp_path, optimizer("Adam", 0.1))
    assert moved == [True, False, True, False]


@claim("tpu.apply-gradients.zero-for-adagrad-momentum")
def test_zero_for_adagrad_momentum(subject: Subject, tmp_path: Path) -> None:
    moved = _moved_by_zero(subject, tmp_path, optimizer("AdagradMomentum", 0.1, momentum=0.9))
    assert moved == [True, False, True, False]


@claim("tpu.apply-gradients.zero-for-ftrl")
def test_zero_for_ftrl(subject: Subject, tmp_path: Path) -> None:
    found = _table(subject, tmp_path, optimizer("FTRL", 0.1), _zero)
    assert found[[0, 2]].tolist() == [[0.0] * 3] * 2
    assert found[[1, 3]] == pytest.approx(BEGIN[[1, 3]])


@claim("tpu.apply-gradients.dynamic-rate")
def test_dynamic_rate(subject: Subject, tmp_path: Path) -> None:
    import tensorflow as tf

    rate = tf.Variable(0.1)
    trained = training(subject, ONE, optimizer("SGD", lambda: rate))
    for number in (0.1, 0.0, 0.5):
        rate.assign(number)
        trained.step(ONE, _ones)
    found = trained.held(tmp_path)["user"]["parameters"]
    assert (BEGIN - found)[[0, 2]] == pytest.approx(np.full((2, 3), 0.6), rel=1e-5)


@claim("tpu.optimizers.clipping-order")
def test_clipping_order(subject: Subject, tmp_path: Path) -> None:
    twice = {"who": Feature("user", [[0, 0], [2]], combiner="sum")}
    limits = {"clipvalue": (-0.5, 1.5), "clip_weight_min": -0.1, "clip_weight_max": 0.2}
    trained = training(subject, twice, optimizer("SGD", 0.5, **limits))
    trained.step(twice, _ones)
    found = trained.held(tmp_path)["user"]["parameters"]
    # The gradient of row 0 is 2, which is cut to 1.5; clipped one by one it would be 2.
    wanted = np.clip(BEGIN[[0, 2]] - 0.5 * np.array([[1.5], [1.0]]), -0.1, 0.2)
    assert found[[0, 2]] == pytest.approx(wanted)
    assert found[[1, 3]] == pytest.approx(BEGIN[[1, 3]])
