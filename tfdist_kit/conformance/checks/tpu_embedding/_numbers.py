"""What lookups and updates give by their published formulas, in NumPy with 64 bits.

ids, weights -> Lookups (row of the output, id, gain) -> activations
gradients of the activations -> Lookups -> sum for each id -> rule -> table and slots

Nothing here knows TensorFlow or the kit: the checks hold what these compute against this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
State = dict[str, Array]
"""A table's ``parameters`` and slot variables by name, all float64 [rows, dim]."""
Rule = Callable[..., None]
"""Changes a State in place: rule(state, ids, gradients, rate, **parameters)."""


@dataclass(frozen=True)
class Feature:
    """One feature's ids, and how they are combined.

    Attributes:
        table: The name of its table.
        ids: Those of each sample.
        weights: As many for each sample; none are all 1.
        combiner: ``sum``, ``mean`` or ``sqrtn``.
        length: Of a sequence: each id has a row of its own, the later ones are left out.
    """

    table: str
    ids: Sequence[Sequence[int]]
    weights: Sequence[Sequence[float]] | None = None
    combiner: str = "mean"
    length: int = 0

    @property
    def rows(self) -> int:
        """How many rows the flattened output has."""
        return len(self.ids) * max(self.length, 1)

    def lookups(self) -> Iterator[tuple[int, int, float]]:
        """Each lookup as row of the output, id and the factor that its vector is taken by."""
        for sample, ids in enumerate(self.ids):
            if self.length:
                yield from ((sample * self.length + i, each, 1.0) for i, each in self._kept(ids))
            else:
                gains = self._gains(sample)
                yield from ((sample, each, gain) for each, gain in zip(ids, gains, strict=True))

    def _kept(self, ids: Sequence[int]) -> Iterator[tuple[int, int]]:
        yield from enumerate(ids[: self.length])

    def _gains(self, sample: int) -> Array:
        weights = np.asarray(
            self.weights[sample] if self.weights else [1.0] * len(self.ids[sample]), np.float64
        )
        total = {
            "sum": 1.0,
            "mean": weights.sum(),
            "sqrtn": np.sqrt((weights * weights).sum()),
        }[self.combiner]
        return weights / total if total else weights * 0.0


def looked_up(feature: Feature, table: Array) -> Array:
    """The activations of a feature, [rows of the output, dim]."""
    found = np.zeros((feature.rows, table.shape[1]))
    for row, each, gain in feature.lookups():
        found[row] += gain * table[each]
    return found


def summed(features: Sequence[tuple[Feature, Array]], shape: tuple[int, ...]) -> tuple[Any, Array]:
    """What a table's features have for it.

    Args:
        features: Each with the gradient of its activations.
        shape: The table's.

    Returns:
        The ids that were looked up, and the summed gradient of each.
    """
    total, seen = np.zeros(shape), np.zeros(shape[0], bool)
    for feature, gradient in features:
        for row, each, gain in feature.lookups():
            total[each] += gain * gradient[row]
            seen[each] = True
    ids = np.flatnonzero(seen)
    return ids, total[ids]


def sgd(state: State, ids: Any, g: Array, rate: float) -> None:
    """Stochastic gradient descent."""
    state["parameters"][ids] -= rate * g


def adagrad(state: State, ids: Any, g: Array, rate: float) -> None:
    """Adagrad."""
    state["accumulators"][ids] += g * g
    state["parameters"][ids] -= rate * g / np.sqrt(state["accumulators"][ids])


def adagrad_momentum(
    state: State,
    ids: Any,
    g: Array,
    rate: float,
    *,
    momentum: float = 0.0,
    nesterov: bool = False,
    exponent: float = 2.0,
    beta2: float = 1.0,
    epsilon: float = 1e-10,
) -> None:
    """Adagrad whose scaled gradients are the input of a momentum."""
    squares = g * g if beta2 == 1.0 else (1.0 - beta2) * g * g
    accumulated = beta2 * state["accumulators"][ids] + squares
    scaled = g * (accumulated + epsilon) ** (-1.0 / exponent)
    moved = momentum * state["momenta"][ids] + scaled
    state["accumulators"][ids], state["momenta"][ids] = accumulated, moved
    state["parameters"][ids] -= rate * (momentum * moved + scaled if nesterov else moved)


def ftrl(
    state: State,
    ids: Any,
    g: Array,
    rate: float,
    *,
    power: float = -0.5,
    l1: float = 0.0,
    l2: float = 0.0,
    beta: float = 0.0,
    times_rate: bool = False,
) -> None:
    """FTRL-proximal; with `times_rate` the linears are kept multiplied by the rate."""
    before, old = state["accumulators"][ids], state["parameters"][ids]
    after = before + g * g
    by = rate if times_rate else 1.0
    grown = (after**-power - before**-power) / rate
    linear = state["linears"][ids] + by * (g - grown * old)
    curve = by * (after**-power / rate + 2.0 * l2 + beta / rate)
    new = (np.sign(linear) * l1 * by - linear) / curve
    state["accumulators"][ids], state["linears"][ids] = after, linear
    state["parameters"][ids] = np.where(np.abs(linear) > l1 * by, new, 0.0)


def adam(
    state: State,
    ids: Any,
    g: Array,
    rate: float,
    *,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    epsilon: float = 1e-7,
    lazy: bool = True,
    inside: bool = True,
) -> None:
    """Adam without correction of its bias; with `inside` the epsilon is below the root."""
    if not lazy:
        whole = np.zeros_like(state["parameters"])
        whole[ids] = g
        ids, g = np.arange(len(whole)), whole
    momenta = beta_1 * state["momenta"][ids] + (1.0 - beta_1) * g
    velocities = beta_2 * state["velocities"][ids] + (1.0 - beta_2) * g * g
    below = np.sqrt(velocities + epsilon**2) if inside else np.sqrt(velocities) + epsilon
    state["momenta"][ids], state["velocities"][ids] = momenta, velocities
    state["parameters"][ids] -= rate * momenta / below


def step(
    features: Mapping[str, Feature],
    states: Mapping[str, State],
    rule: Callable[[State, Any, Array], None],
) -> None:
    """One training step whose loss is half the sum of all squared activations.

    The gradient of each activation is then the activation itself.

    Args:
        features: The batch.
        states: The tables' by name; changed in place.
        rule: What is done with a table's ids and gradients.
    """
    activations = {
        name: looked_up(one, states[one.table]["parameters"]) for name, one in features.items()
    }
    for table, state in states.items():
        mine = [(one, activations[name]) for name, one in features.items() if one.table == table]
        rule(state, *summed(mine, state["parameters"].shape))
