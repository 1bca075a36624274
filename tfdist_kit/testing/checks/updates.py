"""Two updates of the same variables: do they agree, and if not, how are they related?

Pure: from values before and after to what is said to the user.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

SHOWN = 5
CLOSE = 0.02  # relative: how near to a multiple an update counts as that multiple
Advice = tuple[str, str]


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """As of `numpy.allclose`."""

    rtol: float
    atol: float

    def exceeds(self, value: Any, reference: Any) -> bool:
        """Whether `value` is not `reference`; NaN is NaN."""
        return not np.allclose(value, reference, self.rtol, self.atol, equal_nan=True)

    def __str__(self) -> str:
        return f"rtol {self.rtol:g}, atol {self.atol:g}"


@dataclasses.dataclass(frozen=True)
class Update:
    """A variable before the step, after it on the replicas, and after it in one process."""

    kind: str
    is_floating: bool
    is_new: bool
    start: Any
    replicas: Any
    alone: Any

    def differs(self, tolerance: Tolerance) -> bool:
        """Whether the two results are not the same."""
        if not self.is_floating:
            return not np.array_equal(self.replicas, self.alone)
        return tolerance.exceeds(self.replicas, self.alone)

    def shows(self, tolerance: Tolerance) -> bool:
        """Whether a wrong update of it would be seen: the step has moved it beyond tolerance."""
        if not self.is_floating or np.isnan(self.alone).any():
            return False
        return any(tolerance.exceeds(end, self.start) for end in (self.replicas, self.alone))

    @property
    def largest(self) -> float:
        """Largest difference between the two results."""
        with np.errstate(invalid="ignore"):
            return float(np.max(np.abs(_wide(self.replicas) - _wide(self.alone))))

    @property
    def ratio(self) -> float | None:
        """How many times the single process' update that of the replicas is, if it is that."""
        return _multiple(
            _wide(self.replicas) - _wide(self.start), _wide(self.alone) - _wide(self.start)
        )


def _wide(value: Any) -> Any:
    return np.asarray(value).astype(np.float64)


def _multiple(update: Any, reference: Any) -> float | None:
    length = np.linalg.norm(reference)
    if not np.isfinite(length) or not np.isfinite(update).all() or length == 0:
        return None
    ratio = float(np.vdot(update, reference) / length**2)
    rest = np.linalg.norm(update - ratio * reference)
    return ratio if rest <= CLOSE * max(np.linalg.norm(update), length) else None


@dataclasses.dataclass(frozen=True)
class Difference:
    """A variable that differs, as it is told to the other workers."""

    kind: str
    largest: float
    ratio: float | None
    is_new: bool

    @classmethod
    def of(cls, update: Update) -> Difference:
        """What is told of this one."""
        ratio = update.ratio if update.is_floating else None
        return cls(update.kind, update.largest, ratio, update.is_new)

    def __str__(self) -> str:
        text = f"  {self.kind}: the largest difference is {self.largest:.6g}"
        if self.ratio is not None and not _near([self.ratio], 1):
            text += f"; its update is {self.ratio:.4g} times that of the single process"
        return text


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What is known after the step.

    Attributes:
        differences: The variables that differ from the single process'.
        compared: How many were compared.
        replicas: How many replicas there are.
        rows: How many rows the batch has.
        is_own: Whether each replica has made the update of its own rows alone.
        disagreement: In what the replicas differ from each other.
    """

    differences: tuple[Difference, ...]
    compared: int
    replicas: int
    rows: int
    is_own: bool
    disagreement: str | None

    def message(self, tolerance: Tolerance) -> str:
        """What is said to the user."""
        lines = [
            f"one step on {self.replicas} replicas is not one step on the whole batch of "
            f"{self.rows} rows: {len(self.differences)} of {self.compared} variables differ "
            f"from the single process ({tolerance})",
            *map(str, self.differences[:SHOWN]),
        ]
        if len(self.differences) > SHOWN:
            lines.append(f"  and {len(self.differences) - SHOWN} more")
        if self.disagreement:
            first, *rest = self.disagreement.splitlines()
            lines.append(f"  nor do the replicas agree with each other: {first}")
            lines += [f"  {line}" for line in rest if not line.startswith(("  cause", "  do"))]
        cause, cure = self.advice()
        return "\n".join([*lines, f"  cause: {cause}", f"  do: {cure}"])

    @property
    def is_all_new(self) -> bool:
        """Whether only variables differ that the step itself has made."""
        return bool(self.differences) and all(each.is_new for each in self.differences)

    @property
    def has_known_ratio(self) -> bool:
        """Whether all differences are the number of replicas, or one over it."""
        return self._is_power(self.replicas) or self._is_power(1 / self.replicas)

    def advice(self) -> Advice:
        """The cause that was seen, and what to do; else what may make steps differ."""
        if self.is_own:
            return _not_reduced()
        if self.disagreement:
            return _apart()
        if self._is_power(self.replicas):
            return _too_large(self.replicas)
        if self._is_power(1 / self.replicas):
            return _too_small(self.replicas)
        if self.differences and all(each.ratio == 0 for each in self.differences):
            return (
                "the step on the replicas has changed none of these variables",
                "see whether step_fn updates the variables of the state that it is given",
            )
        return self._legitimate()

    def _is_power(self, factor: float) -> bool:
        """Whether updates are this multiple, or what an optimizer makes of such gradients.

        Its second moments are the square of it, and Adam's weights do not change by it.
        """
        ratios = [each.ratio for each in self.differences if each.ratio is not None]
        if self.replicas == 1 or len(ratios) < len(self.differences) or not ratios:
            return False
        return _near(ratios, factor) and all(
            any(_near([ratio], power) for power in (1, factor, factor**2)) for ratio in ratios
        )

    def _legitimate(self) -> Advice:
        seen = "no simple relation between the two updates was seen"
        if self.replicas == 1:
            seen = "there is one replica, so nothing of this comes from distribution"
        elif self.rows % self.replicas:
            seen += (
                f"; {self.rows} rows do not divide by {self.replicas} replicas, so that a mean "
                "over each replica's rows gives them unequal weight"
            )
        return (
            seen,
            "a step differs by design if it uses statistics of a batch (BatchNormalization: "
            "synchronized=True), dropout or other random numbers (leave them out of the test), or "
            "clips a replica's gradient; else see how losses and gradients are reduced",
        )


def _near(ratios: list[float], factor: float) -> bool:
    return any(abs(ratio - factor) <= CLOSE * factor for ratio in ratios)


def _not_reduced() -> Advice:
    return (
        "gradients are not reduced over the replicas: each worker has made the update of its first "
        "replica's rows alone",
        "let the optimizer reduce them (apply_gradients, or apply, in strategy.run), or "
        "tf.distribute.get_replica_context().all_reduce('SUM', gradients) before an assign",
    )


def _apart() -> Advice:
    return (
        "the replicas agreed before the step and do not agree after it, so they were given values "
        "that are not reduced over all replicas",
        "if these are statistics of a replica's rows (BatchNormalization), make them those of the "
        "batch (synchronized=True), or leave them out with variables=; else reduce the values "
        "(all_reduce in the replica context) before they are assigned",
    )


def _too_large(replicas: int) -> Advice:
    return (
        f"the update is {replicas} times too large, and there are {replicas} replicas: the loss is "
        "averaged over each replica's own rows, and the gradients are then summed over "
        f"{replicas} replicas",
        "divide by the global batch size: tf.nn.compute_average_loss(per_example_loss, "
        "global_batch_size=...). If step_fn divides by a number of replicas, it must ask "
        "tf.distribute.get_strategy() for it, which knows when there is one process",
    )


def _too_small(replicas: int) -> Advice:
    return (
        f"the update is {replicas} times too small, and there are {replicas} replicas: it is "
        "divided by their number twice",
        "divide the loss by the global batch size and sum the gradients, or average both over "
        "replicas; not both",
    )
