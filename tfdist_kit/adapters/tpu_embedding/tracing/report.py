"""What `check_step` returns: what was traced, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tfdist_kit._errors import EmbeddingError, UsageError
from tfdist_kit.adapters.tpu_embedding.tracing.findings import MISTAKES, Finding


@dataclass(frozen=True)
class TracedStep:
    """One step function.

    Attributes:
        name: Its name.
        enqueues: How many enqueue operations its graph has: one for each core and batch, or one
            for each batch inside ``strategy.run``.
        dequeues: How many times it calls ``dequeue``.
        applied: How many times it calls ``apply_gradients``.
        is_traced: Whether TensorFlow traced it to its end.
        findings: What is wrong with it.
    """

    name: str
    enqueues: int
    dequeues: int
    applied: int
    is_traced: bool
    findings: tuple[Finding, ...]

    def __str__(self) -> str:
        counts = (
            f"{self.enqueues} enqueue, {self.dequeues} dequeue, {self.applied} apply_gradients"
            if self.is_traced
            else "could not be traced"
        )
        return "\n".join([f"{self.name}: {counts}", *_indented(self.findings)])


@dataclass(frozen=True)
class Table:
    """One table of the embedding.

    Attributes:
        name: Its name.
        rows: How many rows the vocabulary has.
        dim: How many numbers each row has.
        optimizer: The class of its optimizer.
    """

    name: str
    rows: int
    dim: int
    optimizer: str

    def __str__(self) -> str:
        return f"table {self.name}: {self.rows} x {self.dim}, {self.optimizer}"


@dataclass(frozen=True)
class StepReport:
    """What `check_step` has seen; printed, it says all of it.

    Attributes:
        hosts: How many hosts the made-up TPU has.
        cores_per_host: How many cores each host has.
        steps: The step functions, in the order in which they were traced.
        features: For each feature, by its path in ``feature_config``, the shape that ``dequeue``
            gives it on each core; empty if no embedding was built.
        tables: The tables of the embedding, in TensorFlow's order; empty likewise.
        general: Findings that are about no single step.
    """

    hosts: int
    cores_per_host: int
    steps: tuple[TracedStep, ...]
    features: Mapping[str, tuple[int, ...]]
    tables: tuple[Table, ...]
    general: tuple[Finding, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings."""
        return (*self.general, *(each for step in self.steps for each in step.findings))

    def raise_for_findings(self, *, allow: Collection[str] = ()) -> None:
        """Raise if anything was found.

        Args:
            allow: Codes of findings that are taken as they are.

        Raises:
            EmbeddingError: Says the whole report.
            UsageError: There is no such code.
        """
        if isinstance(allow, str) or not set(allow) <= set(MISTAKES):
            raise UsageError(
                f"allow is {allow!r}", hint="give a list of codes of findings, such as ['EMB010']"
            )
        if any(finding.code not in allow for finding in self.findings):
            raise EmbeddingError(str(self), hint="cure what was found, or allow its codes")

    def __str__(self) -> str:
        each = " each" if self.hosts > 1 else ""
        size = f"{_count(self.hosts, 'host')} with {_count(self.cores_per_host, 'core')}{each}"
        found = _count(len(self.findings), "finding") if self.findings else "nothing found"
        return "\n".join(
            [
                f"traced for a TPU of {size}; {found}",
                *map(str, self.general),
                *map(str, self.steps),
                *(_feature(path, shape) for path, shape in self.features.items()),
                *map(str, self.tables),
            ]
        )


def _feature(path: str, shape: tuple[int, ...]) -> str:
    return f"feature {path}: {list(shape)}" if path else f"feature: {list(shape)}"


def _indented(findings: tuple[Finding, ...]) -> list[str]:
    return ["  " + str(finding).replace("\n", "\n  ") for finding in findings]


def _count(number: int, name: str) -> str:
    return f"{number} {name}" if number == 1 else f"{number} {name}s"
