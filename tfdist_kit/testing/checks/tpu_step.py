"""Would this step do on a TPU? `check_step` of the adapters, as an assertion."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from tfdist_kit._errors import EmbeddingError
from tfdist_kit.adapters import tpu_embedding

if TYPE_CHECKING:
    from tfdist_kit.adapters.tpu_embedding import StepReport


def assert_tpu_step(
    make: Callable[[Any], Any],
    inputs: Any = (),
    *,
    hosts: int = 1,
    cores_per_host: int = 8,
    allow: Collection[str] = (),
) -> StepReport:
    """Check that a step with a ``TPUEmbedding`` has none of the faults that show without a TPU.

    It runs in the process that it is called in: in a worker, if the test is marked
    ``tfdist(workers=1)``.

    Args:
        make: As for `tfdist_kit.adapters.tpu_embedding.check_step`.
        inputs: Likewise.
        hosts: Likewise.
        cores_per_host: Likewise.
        allow: Codes of findings that are taken as they are, such as ``EMB010``.

    Returns:
        What was traced.

    Raises:
        AssertionError: Something was found; says the whole report.
        UsageError: An argument is wrong.
    """
    __tracebackhide__ = True
    report = tpu_embedding.check_step(make, inputs, hosts=hosts, cores_per_host=cores_per_host)
    try:
        report.raise_for_findings(allow=allow)
    except EmbeddingError:
        raise AssertionError(str(report)) from None
    return report
