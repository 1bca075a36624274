"""Host mode's numbers against the published formulas, and against itself under each strategy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.adapters.cluster import run_workers
from tests.adapters.tpu_embedding import reference
from tests.adapters.tpu_embedding.cases import OWN, Case, Update, made, updates

HERE = "tests.adapters.tpu_embedding.running"
STEPS = {seed: seed % 5 for seed in range(30)}  # a whole step costs far more than an update
UPDATES = range(300)
SHARED = range(100, 104)

# The largest error allowed, relative to a value above 1. FTRL's linears are differences of nearly
# equal numbers, divided by the learning rate.
BOUNDS = {"SGD": 1e-6, "Adagrad": 2e-6, "AdagradMomentum": 5e-6, "FTRL": 1e-4, "Adam": 1e-5}
ACTIVATIONS = 1e-5
BETWEEN_STRATEGIES = 2e-6

Result = tuple[list[list[Any]], dict[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    """What one process has computed."""
    [found] = run_workers(
        f"{HERE}:everything", workers=0, seeds=[*STEPS, *SHARED], updates_of=list(UPDATES)
    )
    found["cases"] = dict(zip([*STEPS, *SHARED], found["cases"], strict=True))
    return dict(found)


def error(found: Any, expected: Any) -> float:
    assert np.shape(found) == np.shape(expected)
    worst = np.max(np.abs(found - expected) / np.maximum(np.abs(expected), 1.0), initial=0.0)
    return float("inf") if np.isnan(worst) else float(worst)


def of_kind(kind: str) -> Iterator[Update]:
    return (update for update in map(updates, UPDATES) if update.table.optimizer[0] == kind)


@pytest.mark.parametrize("kind", OWN)
def test_updates_follow_the_published_formula(alone: dict[str, Any], kind: str) -> None:
    for update in of_kind(kind):
        found = alone["updates"][update.seed]
        for slot, expected in reference.updated(update).items():
            assert error(found[slot], expected) <= BOUNDS[kind], f"{slot}, seed {update.seed}"


@pytest.mark.parametrize(
    ("kind", "parameter"),
    [
        (kind, parameter)
        for kind, own in OWN.items()
        for parameter in ("clipvalue", "clip_weight_min", "clip_weight_max", *own)
        if parameter != "allow_zero_accumulator"
    ],
)
def test_no_parameter_is_left_out(alone: dict[str, Any], kind: str, parameter: str) -> None:
    """A reference without the parameter must be found out, or its test above proves nothing."""
    for update in of_kind(kind):
        options = dict(update.table.optimizer[1])
        if options.pop(parameter, None) is not None:
            without = replace(update, table=replace(update.table, optimizer=(kind, options)))
            wrong = reference.updated(without)
            found = alone["updates"][update.seed]
            if any(error(found[slot], wrong[slot]) > BOUNDS[kind] for slot in wrong):
                return
    pytest.fail(f"no seed shows that {parameter} counts")


@pytest.mark.parametrize("kind", OWN)
def test_rows_that_are_not_looked_up_stay_as_they_are(alone: dict[str, Any], kind: str) -> None:
    seen = 0
    for update in of_kind(kind):
        if update.table.optimizer[1].get("lazy_adam", True):
            touched = {row for rows, _ in update.steps for row in rows}
            others = [row for row in range(update.table.rows) if row not in touched]
            found = alone["updates"][update.seed]["parameters"]
            assert np.array_equal(found[others], update.table.start[others])
            seen += len(others)
    assert seen


def test_adam_that_is_not_lazy_moves_every_row(alone: dict[str, Any]) -> None:
    moved = 0
    for update in of_kind("Adam"):
        options = update.table.optimizer[1]
        if not options.get("lazy_adam", True) and options.get("beta_1", 0.9):
            rows, gradients = update.steps[0]
            later = {row for rows, _ in update.steps[1:] for row in rows}
            still = [row for row in rows if row not in later]
            lazy = replace(
                update,
                table=replace(update.table, optimizer=("Adam", {**options, "lazy_adam": True})),
            )
            found = alone["updates"][update.seed]["momenta"]
            for row in still:
                if gradients[rows.index(row)].any():
                    assert error(found[row], reference.updated(lazy)["momenta"][row]) > 1e-6
                    moved += 1
    assert moved


def test_ftrl_may_have_a_learning_rate_of_zero(alone: dict[str, Any]) -> None:
    found = alone["without rate"]
    linear, total = -2.0 - (9.25**0.5 - 0.5), 9.25
    assert found["accumulators"][:, 0] == pytest.approx([0.25, total])
    assert found["linears"][:, 0] == pytest.approx([-2.0, linear])
    assert found["parameters"][:, 0] == pytest.approx([1.0, -linear / (0.5 + total**0.5)])


REFUSED = {
    "weight decay": "weight_decay_factor has two descriptions that contradict each other",
    "no accumulation": "an order that is not specified",
    "no accumulation, clipped": "an order that is not specified",
    "custom": "the formula of the optimizer CustomOptimizer is not known",
    "subclass": "the formula of the optimizer Mine is not known",
    "variable": "learning_rate is a ResourceVariable, which a TPU cannot take",
    "text": "learning_rate is a str",
    "schedule": "learning_rate (ExponentialDecay) needs arguments",
    "power": "learning_rate_power is 0.5, but must be 0 or less",
    "l1": "l1_regularization_strength is -1.0, but must be 0 or more",
    "beta": "beta is nan, but must be 0 or more",
    "clipvalue": "clipvalue has the lower limit 0.5 above the upper limit -0.5",
    "clip weights": "clip_weight has the lower limit 0.5 above the upper limit -0.5",
    "combiner": "a CustomCombiner belongs to TPUEmbeddingV2",
    "layout": "a layout belongs to TPUEmbeddingV2",
    "dtype": "TPUEmbedding makes every table float32, whatever its dtype, which is int32",
}


@pytest.mark.parametrize("what", [*REFUSED, "good", "good rate", "none"])
def test_what_is_not_modelled_is_refused_with_the_reason(alone: dict[str, Any], what: str) -> None:
    said = alone["unsupported"][what]
    if what in REFUSED:
        assert said.startswith("table 'users': ")
        assert REFUSED[what] in said
    else:
        assert said == ""


@pytest.mark.parametrize("number", range(5))
def test_whole_steps_follow_the_published_formulas(alone: dict[str, Any], number: int) -> None:
    for seed in (seed for seed, each in STEPS.items() if each == number):
        compare(made(seed), alone["cases"][seed])


def compare(case: Case, result: Result) -> None:
    activations, values = result
    expected, tables = reference.trained(case)
    for step, (found, wanted) in enumerate(zip(activations, expected, strict=True)):
        for feature, one, other in zip(case.features, found, wanted, strict=True):
            where = f"seed {case.seed}, step {step}, {feature}"
            assert error(one, other) <= ACTIVATIONS, where
    for table in case.tables:
        for slot, other in tables[table.name].items():
            bound = 2 * BOUNDS[table.optimizer[0]]
            assert error(values[table.name][slot], other) <= bound, f"seed {case.seed}, {table}"


def test_a_reference_with_another_combiner_or_weight_is_found_out(alone: dict[str, Any]) -> None:
    others = {"mean": "sum", "sum": "sqrtn", "sqrtn": "mean"}
    found = set()
    for seed in STEPS:
        case = made(seed)
        for number, table in enumerate(case.tables):
            changed = list(case.tables)
            changed[number] = replace(table, combiner=others[table.combiner])
            try:
                compare(replace(case, tables=changed), alone["cases"][seed])
            except AssertionError:
                found.add(table.combiner)
    assert found == set(others)


def shared_by_two(case: Case, results: list[Result]) -> Result:
    """The result of two replicas that share the batches, as if one had had them."""
    activations = [
        [np.concatenate(parts) for parts in zip(*step, strict=True)]
        for step in zip(*(each[0] for each in results), strict=True)
    ]
    return activations, results[0][1]


def agrees(one: Result, other: Result, seed: int) -> None:
    for step, wanted in zip(one[0], other[0], strict=True):
        for found, expected in zip(step, wanted, strict=True):
            assert error(found, expected) <= BETWEEN_STRATEGIES, f"seed {seed}"
    for name, slots in other[1].items():
        for slot, expected in slots.items():
            assert error(one[1][name][slot], expected) <= BETWEEN_STRATEGIES, f"seed {seed}"


def test_two_replicas_of_a_process_compute_what_one_does(alone: dict[str, Any]) -> None:
    [found] = run_workers(f"{HERE}:on_two_replicas", workers=0, seeds=list(SHARED))
    for seed, result in zip(SHARED, found, strict=True):
        agrees(result, alone["cases"][seed], seed)


def test_two_workers_compute_what_one_process_does(alone: dict[str, Any]) -> None:
    workers = run_workers(f"{HERE}:on_two_workers", seeds=list(SHARED))
    for seed, *results in zip(SHARED, *workers, strict=True):
        agrees(shared_by_two(made(seed), results), alone["cases"][seed], seed)
        for name, slots in results[0][1].items():
            for slot, value in slots.items():
                assert np.array_equal(value, results[1][1][name][slot])
