"""What embeddings on a TPU compute, in NumPy and float64, written from the published formulas.

Nothing of tfdist-kit is used, nor TensorFlow: one loop over samples and their ids, in the order in
which the formulas read.

    tables, features, steps -> lookups and combiners -> activations
    gradients of them -> summed by row -> clipped -> the optimizer -> clipped -> tables, slots
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.adapters.tpu_embedding.cases import Case, Feature, Table, Update, rate_at

Array = np.ndarray[Any, np.dtype[np.float64]]
Values = dict[str, dict[str, Array]]

STARTS = {
    "SGD": {},
    "Adagrad": {"accumulators": 0.1},
    "AdagradMomentum": {"accumulators": 0.0, "momenta": 0.0},
    "FTRL": {"accumulators": 0.1, "linears": 0.0},
    "Adam": {"momenta": 0.0, "velocities": 0.0},
}


def trained(case: Case) -> tuple[list[list[Array]], Values]:
    """Activations of each step and feature, and tables and slots at the end."""
    values = {table.name: _start(table) for table in case.tables}
    activations = []
    for number, step in enumerate(case.steps):
        looked_up = []
        sums: dict[str, dict[int, Array]] = {table.name: {} for table in case.tables}
        for feature, samples, gradient in zip(
            case.features, step.samples, step.gradients, strict=True
        ):
            table = case.table(feature)
            rows = _lookups(feature, table.combiner, samples)
            output = np.zeros((len(rows), table.dim))
            for position, row in enumerate(rows):
                for each, gain in row:
                    vector = values[table.name]["parameters"][each]
                    output[position] += gain * _quantized(table, vector)
                    part = gain * (0.0 if gradient is None else gradient[position])
                    seen = sums[table.name].get(each, np.zeros(table.dim))
                    sums[table.name][each] = seen + part
            looked_up.append(output)
        activations.append(looked_up)
        for table in case.tables:
            _update(table, values[table.name], sums[table.name], number)
    return activations, values


def updated(update: Update) -> dict[str, Array]:
    """A table and its slots after its updates."""
    values = _start(update.table)
    for step, (rows, gradients) in enumerate(update.steps):
        sums = dict(zip(rows, gradients.astype(np.float64), strict=True))
        _update(update.table, values, sums, step)
    return values


def _start(table: Table) -> dict[str, Array]:
    kind, options = table.optimizer
    starts = dict(STARTS[kind])
    if "accumulators" in starts and "initial_accumulator_value" in options:
        starts["accumulators"] = options["initial_accumulator_value"]
    found = {slot: np.full((table.rows, table.dim), value) for slot, value in starts.items()}
    return {"parameters": table.start.astype(np.float64), **found}


def _lookups(
    feature: Feature, combiner: str, samples: list[list[tuple[int, float]]]
) -> list[list[tuple[int, float]]]:
    """For each output row the ids that count in it, with their gains."""
    if feature.length:
        spread = [[[pair] for pair in sample[: feature.length]] for sample in samples]
        padded = [row + [[]] * (feature.length - len(row)) for row in spread]
        rows = [each for row in padded for each in row]
    else:
        rows = samples
    return [list(_gained(combiner, row)) for row in rows]


def _gained(combiner: str, row: list[tuple[int, float]]) -> list[tuple[int, float]]:
    weights = [weight for _, weight in row]
    divisor = {
        "sum": 1.0,
        "mean": math.fsum(weights),
        "sqrtn": math.sqrt(math.fsum(weight**2 for weight in weights)),
    }[combiner]
    return [(each, weight / divisor if divisor else 0.0) for each, weight in row]


def _quantized(table: Table, vector: Array) -> Array:
    if table.buckets is None:
        return vector
    buckets, lower, upper = table.buckets
    quantum = (upper - lower) / (buckets - 1)
    inside = np.minimum(np.maximum(vector, lower), upper)
    return np.asarray(np.floor((inside - lower) / quantum + 0.5) * quantum + lower)


def _update(table: Table, values: dict[str, Array], sums: dict[int, Array], step: int) -> None:
    kind, options = table.optimizer
    options = {**options, "learning_rate": rate_at(options, step)}
    low, high = _limits(options.get("clipvalue"))
    rows = range(table.rows) if kind == "Adam" and not options.get("lazy_adam", True) else sums
    for row in rows:
        gradient = np.clip(sums.get(row, np.zeros(table.dim)), low, high)
        state = {name: value[row] for name, value in values.items()}
        changed = FORMULAS[kind](gradient, options, **state)
        lowest = options.get("clip_weight_min")
        highest = options.get("clip_weight_max")
        changed["parameters"] = np.clip(
            changed["parameters"],
            -np.inf if lowest is None else lowest,
            np.inf if highest is None else highest,
        )
        for name, value in changed.items():
            values[name][row] = value


def _limits(clipvalue: Any) -> tuple[float, float]:
    if clipvalue is None:
        return -np.inf, np.inf
    low, high = clipvalue if isinstance(clipvalue, tuple) else (-clipvalue, clipvalue)
    return (-np.inf if low is None else low), (np.inf if high is None else high)


def sgd(gradient: Array, options: dict[str, Any], *, parameters: Array) -> dict[str, Array]:
    return {"parameters": parameters - options["learning_rate"] * gradient}


def adagrad(
    gradient: Array, options: dict[str, Any], *, parameters: Array, accumulators: Array
) -> dict[str, Array]:
    total = accumulators + gradient**2
    step = options["learning_rate"] * gradient / np.sqrt(total)
    return {"parameters": parameters - step, "accumulators": total}


def adagrad_momentum(
    gradient: Array,
    options: dict[str, Any],
    *,
    parameters: Array,
    accumulators: Array,
    momenta: Array,
) -> dict[str, Array]:
    beta2, momentum = options.get("beta2", 1.0), options.get("momentum", 0.0)
    if beta2 == 1.0:
        total = accumulators + gradient**2
    else:
        total = beta2 * accumulators + (1.0 - beta2) * gradient**2
    power = 1.0 / options.get("exponent", 2.0)
    preconditioned = gradient / (total + options.get("epsilon", 1e-10)) ** power
    moved = momentum * momenta + preconditioned
    step = momentum * moved + preconditioned if options.get("use_nesterov") else moved
    return {
        "parameters": parameters - options["learning_rate"] * step,
        "accumulators": total,
        "momenta": moved,
    }


def ftrl(
    gradient: Array,
    options: dict[str, Any],
    *,
    parameters: Array,
    accumulators: Array,
    linears: Array,
) -> dict[str, Array]:
    """Algorithm 1 of the paper, with TensorFlow's l2 (half of the paper's) and power."""
    rate = options["learning_rate"]
    l1 = options.get("l1_regularization_strength", 0.0)
    l2 = options.get("l2_regularization_strength", 0.0)
    power = -options.get("learning_rate_power", -0.5)
    beta = options.get("beta", 0.0)
    total = accumulators + gradient**2
    difference = total**power - accumulators**power
    if options.get("multiply_linear_by_learning_rate"):  # every term times the rate
        linear = linears + rate * gradient - difference * parameters
        divisor, threshold = beta + total**power + 2.0 * l2 * rate, l1 * rate
    else:
        linear = linears + gradient - difference / rate * parameters
        divisor, threshold = (beta + total**power) / rate + 2.0 * l2, l1
    kept = np.abs(linear) > threshold
    weights = np.where(kept, (np.sign(linear) * threshold - linear) / divisor, 0.0)
    return {"parameters": weights, "accumulators": total, "linears": linear}


def adam(
    gradient: Array,
    options: dict[str, Any],
    *,
    parameters: Array,
    momenta: Array,
    velocities: Array,
) -> dict[str, Array]:
    beta_1, beta_2 = options.get("beta_1", 0.9), options.get("beta_2", 0.999)
    epsilon = options.get("epsilon", 1e-7)
    first = beta_1 * momenta + (1.0 - beta_1) * gradient
    second = beta_2 * velocities + (1.0 - beta_2) * gradient**2
    if options.get("sum_inside_sqrt", True):
        size = np.sqrt(second + epsilon**2)
    else:
        size = np.sqrt(second) + epsilon
    return {
        "parameters": parameters - options["learning_rate"] * first / size,
        "momenta": first,
        "velocities": second,
    }


FORMULAS: dict[str, Any] = {
    "SGD": sgd,
    "Adagrad": adagrad,
    "AdagradMomentum": adagrad_momentum,
    "FTRL": ftrl,
    "Adam": adam,
}
