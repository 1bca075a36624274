"""How the features and tables of an embedding are packed, so that a step needs few operations.

feature_config + output shapes -> groups: the tables of one dim and one combiner
    -> of each group: one vector of ids, one of output rows, one of gains, in the tables' order

A group's output rows are those of its features, one after the other; its ids, where tables are
mixed, are those of one long table that all of its tables make up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

CHUNK = 4096
"""Rows that workers exchange at once, at most: 4096 of dim 16 are 288 KiB."""


@dataclass(frozen=True)
class Place:
    """Where a feature stands in its group.

    Attributes:
        index: Its position among the flattened features.
        path: Its name in ``feature_config``, as TensorFlow joins it.
        config: Its `FeatureConfig`.
        shape: Its output shape, without the table's dim.
        start: The first of its output rows in the group.
    """

    index: int
    path: str
    config: Any
    shape: tuple[int, ...]
    start: int

    @property
    def rows(self) -> int:
        """Its output rows."""
        return math.prod(self.shape)

    @property
    def is_sequence(self) -> bool:
        """Whether each position of a sample has an output row of its own, by its config."""
        return not self.config.output_shape and self.config.max_sequence_length > 0


@dataclass(frozen=True)
class Group:
    """The tables of one dim and one combiner.

    Attributes:
        tables: Their `TableConfig`.
        places: For each table, its features.
    """

    tables: tuple[Any, ...]
    places: tuple[tuple[Place, ...], ...]

    @property
    def dim(self) -> int:
        """The width of the tables."""
        return int(self.tables[0].dim)

    @property
    def combiner(self) -> str:
        """How the vectors of one output row are put together."""
        return str(self.tables[0].combiner)

    @property
    def features(self) -> list[Place]:
        """All features, in the tables' order."""
        return [place for places in self.places for place in places]

    @property
    def rows(self) -> int:
        """All output rows."""
        return sum(place.rows for place in self.features)

    @property
    def offsets(self) -> list[int]:
        """Where each table begins in the long one, and where the last one ends."""
        ends = [0]
        for table in self.tables:
            ends.append(ends[-1] + table.vocabulary_size)
        return ends


@dataclass(frozen=True)
class Bundle:
    """The groups of one dim, whose gradients are summed together.

    Attributes:
        groups: Each with its number among all groups.
    """

    groups: tuple[tuple[int, Group], ...]

    @property
    def chunk(self) -> int:
        """How many rows workers exchange at once; most steps then need no second exchange."""
        lookups = 8 * sum(group.rows for _, group in self.groups)
        return min(CHUNK, self.offsets[-1], max(256, lookups))

    @property
    def dim(self) -> int:
        """The width of the tables."""
        return self.groups[0][1].dim

    @property
    def tables(self) -> list[Any]:
        """The tables of all its groups, which make up one long table."""
        return [table for _, group in self.groups for table in group.tables]

    @property
    def offsets(self) -> list[int]:
        """Where each group begins in the long table, and where the last one ends."""
        ends = [0]
        for _, group in self.groups:
            ends.append(ends[-1] + group.offsets[-1])
        return ends

    @property
    def starts(self) -> list[int]:
        """Where each table begins in the long table."""
        pairs = zip(self.offsets, self.groups, strict=False)
        return [base + start for base, (_, group) in pairs for start in group.offsets[:-1]]


def bundled(groups: Sequence[Group]) -> tuple[Bundle, ...]:
    """The groups by dim."""
    dims: dict[int, list[tuple[int, Group]]] = {}
    for number, group in enumerate(groups):
        dims.setdefault(group.dim, []).append((number, group))
    return tuple(Bundle(tuple(found)) for found in dims.values())


def grouped(
    features: Sequence[tuple[str, Any]], tables: Sequence[Any], shapes: Sequence[Sequence[int]]
) -> tuple[Group, ...]:
    """Pack the features.

    Args:
        features: Path and `FeatureConfig` of each, in the flattened order.
        tables: The `TableConfig` of each table.
        shapes: The output shape of each feature.
    """
    kinds: dict[tuple[int, str], list[Any]] = {}
    for table in tables:
        kinds.setdefault((table.dim, table.combiner), []).append(table)
    return tuple(_group(of_kind, features, shapes) for of_kind in kinds.values())


def _group(
    tables: list[Any], features: Sequence[tuple[str, Any]], shapes: Sequence[Sequence[int]]
) -> Group:
    start = 0
    places = []
    for table in tables:
        found = list(_places(table, features, shapes, start))
        start += sum(place.rows for place in found)
        places.append(tuple(found))
    return Group(tuple(tables), tuple(places))


def _places(
    table: Any, features: Sequence[tuple[str, Any]], shapes: Sequence[Sequence[int]], start: int
) -> Iterator[Place]:
    for index, ((path, config), shape) in enumerate(zip(features, shapes, strict=True)):
        if config.table is table:
            place = Place(index, path, config, tuple(shape), start)
            start += place.rows
            yield place
