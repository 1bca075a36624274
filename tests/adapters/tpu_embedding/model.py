"""One embedding with a feature of every kind, its batches, and what NumPy makes of them.

batch(step, replica): nested lists -> `tensors`: what enqueue() takes
                                   -> `trained`: the tables after some steps, by NumPy in float64
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

SIZE = 4
RATE = 0.25
TABLES: dict[str, tuple[int, int, str]] = {
    "mean": (11, 3, "mean"),
    "other": (7, 3, "mean"),
    "sum": (13, 2, "sum"),
    "sqrtn": (9, 3, "sqrtn"),
    "quantized": (6, 2, "sum"),
}
QUANTIZED = (5, -0.5, 1.5)
# The feature's kind, table, output shape of a sample, and whether it has weights.
FEATURES: dict[str, tuple[str, str, tuple[int, ...], bool]] = {
    "one": ("dense", "mean", (), False),
    "grid": ("dense", "mean", (2,), False),
    "bag": ("sparse", "other", (), True),
    "deep": ("sparse", "mean", (2,), False),
    "list": ("ragged", "sqrtn", (), True),
    "parts": ("ragged", "sum", (2, 1), False),
    "sequence": ("ragged", "sum", (3,), True),
    "pages": ("sparse", "mean", (2,), True),
    "rounded": ("dense", "quantized", (), False),
}
SEQUENCES = {"sequence": 3, "pages": 2}
LONGEST = 5
Rows = list[list[tuple[int, float]]]


def nested(leaf: Callable[[str], Any]) -> dict[str, Any]:
    """The structure of ``feature_config``."""
    return {
        "user": {name: leaf(name) for name in ("one", "grid")},
        "item": tuple(leaf(name) for name in ("bag", "deep", "list")),
        "more": (leaf("parts"), {"inner": leaf("sequence"), "pages": leaf("pages")}),
        "rounded": leaf("rounded"),
    }


def flat(structure: Any) -> dict[str, Any]:
    """The leaves of such a structure by name."""
    return {
        **structure["user"],
        **dict(zip(("bag", "deep", "list"), structure["item"], strict=True)),
        "parts": structure["more"][0],
        "sequence": structure["more"][1]["inner"],
        "pages": structure["more"][1]["pages"],
        "rounded": structure["rounded"],
    }


def batch(step: int, replica: int) -> dict[str, list[list[tuple[int, float]]]]:
    """For each feature and cell of its batch, ids with their weights.

    A cell is a sample, or where a feature has more dimensions a part of it.
    """
    rng = np.random.default_rng([step, replica])
    return {name: _cells(name, rng) for name in FEATURES}


def _cells(name: str, rng: np.random.Generator) -> list[list[tuple[int, float]]]:
    kind, table, inner, weighted = FEATURES[name]
    cells = SIZE * (inner[0] if inner and (kind == "dense" or name == "deep") else 1)
    found = []
    for _ in range(cells):
        count = 1 if kind == "dense" else int(rng.integers(0, LONGEST + 1))
        ids = rng.integers(0, TABLES[table][0], count)
        weights = rng.uniform(0.5, 2.0, count) if weighted else np.ones(count)
        found.append([(int(i), float(np.float32(w))) for i, w in zip(ids, weights, strict=True)])
    return found


def configs(optimizer: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """The `TableConfig` of each table, and ``feature_config``."""
    import tensorflow as tf

    kinds = tf.tpu.experimental.embedding
    tables = {
        name: kinds.TableConfig(
            rows,
            dim,
            combiner=combiner,
            name=name,
            optimizer=optimizer,
            initializer=tf.keras.initializers.RandomUniform(-1.0, 1.0, seed=rows),
            quantization_config=(
                kinds.QuantizationConfig(*QUANTIZED) if name == "quantized" else None
            ),
        )
        for name, (rows, dim, combiner) in TABLES.items()
    }

    def feature(name: str) -> Any:
        shape = [SIZE, *FEATURES[name][2]] if name == "parts" else None
        length = SEQUENCES.get(name, 0)
        table = tables[FEATURES[name][1]]
        return kinds.FeatureConfig(table, max_sequence_length=length, output_shape=shape)

    return tables, nested(feature)


def tensors(given: dict[str, list[list[tuple[int, float]]]]) -> tuple[Any, Any]:
    """A batch's features and weights, as enqueue() takes them."""
    pairs = {name: _tensors(name, cells) for name, cells in given.items()}
    return nested(lambda name: pairs[name][0]), nested(lambda name: pairs[name][1])


def _tensors(name: str, cells: list[list[tuple[int, float]]]) -> tuple[Any, Any]:
    import tensorflow as tf

    kind, _, inner, weighted = FEATURES[name]
    ids = tf.constant([i for cell in cells for i, _ in cell], tf.int64)
    weights = tf.constant([w for cell in cells for _, w in cell], tf.float32)
    if kind == "dense":
        return tf.cast(tf.reshape(ids, [SIZE, *inner, 1]), tf.int32), None
    lengths = [len(cell) for cell in cells]
    if kind == "ragged":
        made = [tf.RaggedTensor.from_row_lengths(each, lengths) for each in (ids, weights)]
    else:
        outer = [SIZE, *inner] if name == "deep" else [SIZE]
        where = [
            [*np.unravel_index(cell, outer), position]
            for cell, length in enumerate(lengths)
            for position in range(length)
        ]
        where = tf.reshape(tf.constant(where, tf.int64), [-1, len(outer) + 1])
        if name == "bag":  # indices may come in any order
            where, ids, weights = (tf.reverse(each, [0]) for each in (where, ids, weights))
        made = [tf.SparseTensor(where, each, [*outer, LONGEST]) for each in (ids, weights)]
    return made[0], made[1] if weighted else None


def _rows(name: str, cells: list[list[tuple[int, float]]]) -> Rows:
    """The same by output row: where each position has a row, longer cells are cut."""
    length = SEQUENCES.get(name) or (2 if name == "parts" else 0)
    if not length:
        return cells
    return [[pair] for cell in cells for pair in _filled(cell, length)]


def _filled(cell: list[tuple[int, float]], length: int) -> list[tuple[int, float]]:
    return [*cell[:length], *[(0, 0.0)] * (length - len(cell))]


def looked_up(tables: dict[str, Any], given: Any) -> dict[str, Any]:
    """Each feature's activations, float64 ``[rows, dim]``."""
    return {name: _looked_up(tables, name, cells)[0] for name, cells in given.items()}


def _looked_up(tables: dict[str, Any], name: str, cells: Any) -> tuple[Any, list[Any]]:
    table = tables[FEATURES[name][1]]
    combiner = TABLES[FEATURES[name][1]][2]
    if FEATURES[name][1] == "quantized":
        buckets, low, high = QUANTIZED
        step = (high - low) / (buckets - 1)
        table = np.floor((np.clip(table, low, high) - low) / step + 0.5) * step + low
    output, gains = [], []
    for pairs in _rows(name, cells):
        weights = np.array([w for _, w in pairs], np.float64)
        share = {"mean": weights.sum(), "sqrtn": np.sqrt((weights**2).sum()), "sum": 1.0}[combiner]
        own = weights / share if share else weights
        ids = [i for i, _ in pairs]
        output.append((table[ids] * own[:, None]).sum(0) if ids else np.zeros(table.shape[1]))
        gains.append([(i, gain) for i, gain in zip(ids, own, strict=True)])
    return np.array(output), gains


def trained(tables: dict[str, Any], steps: int, replicas: int) -> dict[str, Any]:
    """The tables after some steps of SGD on half the square of all activations."""
    tables = {name: np.array(table, np.float64) for name, table in tables.items()}
    for step in range(steps):
        slopes = {name: np.zeros_like(table) for name, table in tables.items()}
        for replica in range(replicas):
            for name, cells in batch(step, replica).items():
                output, gains = _looked_up(tables, name, cells)
                for slope, pairs in zip(output, gains, strict=True):
                    for i, gain in pairs:
                        slopes[FEATURES[name][1]][i] += slope * gain
        for name in tables:
            tables[name] -= RATE / 10 * slopes[name]
    return tables
