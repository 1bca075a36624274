"""Rules about several tasks' TF_CONFIGs side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from tfdist_kit.tf_config.address import same_place
from tfdist_kit.tf_config.document import Document, as_index
from tfdist_kit.tf_config.findings import Finding, mistake, path
from tfdist_kit.tf_config.rules.address import flaw

CLUSTERS_DIFFER = mistake(
    "TFC080",
    "the tasks do not have the same cluster",
    why="every task starts by its own cluster: the first all-reduce raises InternalError where "
    "the sizes differ, and tasks hang where the addresses or their order do",
    cure="write the same cluster for every task; $source has $theirs",
)
TASK_TWICE = mistake(
    "TFC081",
    "two processes are the same task",
    why="the second one raises UnknownError 'Could not start gRPC server' on the same machine; "
    "another task is missing, and the rest hang",
    cure="give each process its own index; $source is $task already",
)

_Places = dict[str, str]


def check_same_cluster(documents: Mapping[str, Document]) -> Iterator[Finding]:
    """Whether all tasks name the same tasks at the same addresses.

    What most of them say is taken for right. An evaluator trains with nobody, so it may be in
    some clusters and not in others.
    """
    written = {source: _places(document) for source, document in documents.items()}
    compared = {
        source: {where: _comparable(address) for where, address in places.items()}
        for source, places in written.items()
        if places
    }
    if not compared:
        return
    counts = Counter(frozenset(places.items()) for places in compared.values())
    usual = counts.most_common(1)[0][0]
    model = next(source for source, places in compared.items() if usual == places.items())
    for source, places in compared.items():
        differing = sorted(
            where
            for where in {*places, *compared[model]}
            if places.get(where) != compared[model].get(where)
        )
        if differing:
            finding = CLUSTERS_DIFFER.at(
                "cluster",
                _tell(differing, written[source]),
                source=model,
                theirs=_tell(differing, written[model]),
            )
            yield replace(finding, source=source)


def check_each_task_once(documents: Mapping[str, Document]) -> Iterator[Finding]:
    """Whether no two processes take the same place."""
    seen: dict[str, str] = {}
    for source, document in documents.items():
        index = as_index(document.task_field("index"))
        if document.task_type is None or index is None:
            continue
        task = f"{document.task_type}:{index}"
        if task in seen:
            finding = TASK_TWICE.at("task", task, source=seen[task], task=task)
            yield replace(finding, source=source)
        seen.setdefault(task, source)


def _places(document: Document) -> _Places:
    """Where each task is, by its place in the cluster; evaluators are left out."""
    return {
        path(entry.job, entry.index): str(entry.address)
        for entry in document.entries
        if entry.job not in (None, "evaluator")
    }


def _comparable(address: str) -> object:
    return same_place(address) if flaw(address) is None else address


def _tell(places: list[str], written: _Places) -> str:
    return ", ".join(f"{where} = {written.get(where, 'nothing')}" for where in places)
