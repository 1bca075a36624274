"""The rules of the lint, grouped by what they look at.

Each is a small generator of findings over one `Document`; the order below is the order in which
findings are told. The mistakes that they find are described beside them and kept in
`tfdist_kit.tf_config.findings.MISTAKES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tfdist_kit.tf_config.document import Document
from tfdist_kit.tf_config.findings import Finding
from tfdist_kit.tf_config.rules import address, cluster, surroundings, task, text, together

Rule = Callable[[Document], Iterator[Finding]]

TEXT_RULES: tuple[Rule, ...] = (
    text.check_text,
    text.check_json_traps,
    text.check_cluster_is_there,
    text.check_keys,
    text.check_rpc_layer,
)
CLUSTER_RULES: tuple[Rule, ...] = (
    cluster.check_cluster,
    cluster.check_job_names,
    cluster.check_job_sizes,
    cluster.check_job_values,
    address.check_form,
    address.check_port_zero,
    address.check_duplicates,
    address.check_interfaces,
)
TASK_RULES: tuple[Rule, ...] = (
    task.check_task,
    task.check_type,
    task.check_membership,
    task.check_index,
)
ALL_RULES = TEXT_RULES + CLUSTER_RULES + TASK_RULES

__all__ = [
    "ALL_RULES",
    "CLUSTER_RULES",
    "TASK_RULES",
    "TEXT_RULES",
    "Rule",
    "apply",
    "surroundings",
    "together",
]


def apply(rules: Iterable[Rule], document: Document) -> tuple[Finding, ...]:
    """All findings of `rules` about one document."""
    return tuple(finding for rule in rules for finding in rule(document))
