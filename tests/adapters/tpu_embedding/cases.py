"""Random small embeddings with their batches and gradients, each made from its seed alone.

seed -> tables (optimizer with random parameters, combiner, quantization)
     -> features of every kind -> steps: ids and weights of each sample, gradients of each row

Hostile values come often: no ids at all, one id for all, both ends of a table, weights of zero and
below, gradients of zero or None.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float32]]
Sample = list[tuple[int, float]]

KINDS = ("dense", "sparse", "ragged", "sparse3", "sequence", "ragged sequence", "shaped", "folded")
"""The last two are ragged with an output shape: of a sequence, or of samples in pairs."""

MOST_STEPS = 4

INNER = 2
"""Of the feature of rank 3, how many rows a sample has."""


@dataclass(frozen=True)
class Table:
    """A table as it is at the start; `buckets` are number, lower and upper limit."""

    name: str
    rows: int
    dim: int
    combiner: str
    optimizer: tuple[str, dict[str, Any]]
    start: Array
    buckets: tuple[int, float, float] | None


@dataclass(frozen=True)
class Feature:
    """A feature; `length` is that of a sequence, or 0."""

    name: str
    table: int
    kind: str
    length: int
    weighted: bool


@dataclass(frozen=True)
class Step:
    """For each feature its samples, and the gradient of its flattened output rows."""

    samples: list[list[Sample]]
    gradients: list[Array | None]


@dataclass(frozen=True)
class Case:
    """All that is needed to train, here or there."""

    seed: int
    batch: int
    tables: list[Table]
    features: list[Feature]
    steps: list[Step]

    def table(self, feature: Feature) -> Table:
        """The feature's table."""
        return self.tables[feature.table]


def made(seed: int, *, every: bool = False, steps: int = 2) -> Case:
    """The case of a seed; `every` gives it a table of each kind of optimizer, else alike."""
    random = np.random.default_rng(seed)
    alike = (3, "mean") if every else None
    kinds = list(OWN) if every else random.choice(list(OWN), random.integers(1, 4))
    tables = [_table(random, f"table_{i}", str(kind), alike) for i, kind in enumerate(kinds)]
    features = [
        _feature(random, f"feature_{i:02}", i % len(tables))
        for i in range(random.integers(len(tables), len(tables) + 3))
    ]
    batch = int(random.choice([2, 4, 6]))
    return Case(
        seed,
        batch,
        tables,
        features,
        [_step(random, batch, tables, features) for _ in range(steps)],
    )


def _table(random: Any, name: str, optimizer: str, alike: tuple[int, str] | None = None) -> Table:
    any_kind = (int(random.integers(1, 5)), str(random.choice(["mean", "sum", "sqrtn"])))
    dim, combiner = alike or any_kind
    rows = int(random.integers(1, 9))
    return Table(
        name,
        rows,
        dim,
        combiner,
        parameters(random, optimizer),
        random.normal(size=(rows, dim)).astype(np.float32),
        (int(random.integers(2, 9)), -1.0, 1.5) if random.random() < 0.2 else None,
    )


def parameters(random: Any, kind: str) -> tuple[str, dict[str, Any]]:
    """An optimizer of this kind: each of its parameters given or not, by chance.

    The learning rate is a number, or one for each step.
    """
    rates = [float(rate) for rate in random.choice([0.01, 0.1, 0.5], MOST_STEPS)]
    options: dict[str, Any] = {"learning_rate": rates[0] if random.random() < 0.7 else rates}
    shared: dict[str, list[Any]] = {
        "clipvalue": [0.3, (-0.2, None), (None, 0.4), (-0.1, 0.5)],
        "clip_weight_min": [-0.5, -1.0],
        "clip_weight_max": [0.4, 1.0],
        "low_dimensional_packing_status": [True],
    }
    for name, choices in {**shared, **OWN[kind]}.items():
        if random.random() < (0.25 if name in shared else 0.5):
            options[name] = choices[random.integers(len(choices))]
    return kind, options


OWN: dict[str, dict[str, list[Any]]] = {
    "SGD": {},
    "Adagrad": {"initial_accumulator_value": [0.01, 1.0]},
    "AdagradMomentum": {
        "momentum": [0.5, 0.9],
        "use_nesterov": [True],
        "exponent": [1.5, 3.0],
        "beta2": [0.5, 0.99],
        "epsilon": [1e-3, 0.1],
    },
    "FTRL": {
        "learning_rate_power": [-0.3, -0.7, 0.0],
        "l1_regularization_strength": [0.05, 0.5],
        "l2_regularization_strength": [0.1, 1.0],
        "beta": [0.1, 1.0],
        "initial_accumulator_value": [0.5, 1.0],
        "multiply_linear_by_learning_rate": [True],
        "allow_zero_accumulator": [True],
    },
    "Adam": {
        "beta_1": [0.0, 0.5],
        "beta_2": [0.5, 0.99],
        "epsilon": [1e-3, 0.1],
        "lazy_adam": [False],
        "sum_inside_sqrt": [False],
    },
}


def rate_at(options: dict[str, Any], step: int) -> float:
    """The learning rate of a step."""
    rate = options["learning_rate"]
    return float(rate[step] if isinstance(rate, list) else rate)


@dataclass(frozen=True)
class Update:
    """A table and, for each step, gradients of some of its rows."""

    seed: int
    table: Table
    steps: list[tuple[list[int], Array]]


def updates(seed: int) -> Update:
    """The update of a seed; one seed after the other has another kind of optimizer."""
    random = np.random.default_rng(seed)
    table = _table(random, "table", list(OWN)[seed % len(OWN)])
    return Update(seed, table, [_rows_and_gradients(random, table) for _ in range(MOST_STEPS)])


def _rows_and_gradients(random: Any, table: Table) -> tuple[list[int], Array]:
    count = int(random.integers(0, table.rows + 1))
    rows = [int(row) for row in random.permutation(table.rows)[:count]]
    size = random.choice([0.0, 0.01, 1.0, 1.0, 10.0])
    return rows, (size * random.normal(size=(count, table.dim))).astype(np.float32)


def _feature(random: Any, name: str, table: int) -> Feature:
    kind = str(random.choice(KINDS))
    length = int(random.integers(2, 4)) if kind in KINDS[4:7] else 0
    return Feature(name, table, kind, length, bool(kind != "dense" and random.random() < 0.5))


def _step(random: Any, batch: int, tables: list[Table], features: list[Feature]) -> Step:
    samples, gradients = [], []
    for feature in features:
        table = tables[feature.table]
        count = batch * (INNER if feature.kind == "sparse3" else 1)
        samples.append(list(_samples(random, count, table.rows, feature)))
        rows = count * max(feature.length, 1)
        gradients.append(_gradient(random, rows, table.dim))
    return Step(samples, gradients)


def _samples(random: Any, count: int, rows: int, feature: Feature) -> Iterator[Sample]:
    mode = random.choice(["any", "any", "ends", "same", "none"])
    for _ in range(count):
        size = 1 if feature.kind == "dense" else int(random.integers(0, 5)) * (mode != "none")
        ids = {
            "ends": random.choice([0, rows - 1], size),
            "same": np.full(size, rows // 2),
        }.get(mode, random.integers(0, rows, size))
        weights = random.choice([1.0, 0.5, 2.0, 0.0, -1.0, 3.0], size)
        if not feature.weighted:
            weights = np.ones(size)
        yield [(int(each), float(weight)) for each, weight in zip(ids, weights, strict=True)]


def _gradient(random: Any, rows: int, dim: int) -> Array | None:
    gradient = random.normal(size=(rows, dim)).astype(np.float32)
    chance = random.random()
    if chance < 0.1:
        return None
    if chance < 0.2:
        gradient[:] = 0.0
    return np.asarray(gradient)
