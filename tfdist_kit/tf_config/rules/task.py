"""Rules about the task: which of the cluster's tasks this process is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tfdist_kit.tf_config.document import Document, Job, as_index
from tfdist_kit.tf_config.findings import MISSING, Finding, mistake

_NEEDS_BOTH = (
    "TensorFlow raises ValueError 'When `cluster_spec` is given, you must also specify "
    "`task_type` and `task_id`.'"
)
_UNRECOGNIZED = "TensorFlow raises ValueError 'Unrecognized task_type'"
_WRITE = 'write "task": {"type": "worker", "index": 0}'

NO_TASK = mistake(
    "TFC050",
    "there is no task",
    why=_NEEDS_BOTH,
    cure=f"say which task this process is: {_WRITE}",
)
TASK_NULL = mistake(
    "TFC051",
    "the task is null",
    why="TensorFlow raises TypeError \"argument of type 'NoneType' is not iterable\"",
    cure=f"say which task this process is: {_WRITE}",
)
NOT_AN_OBJECT = mistake(
    "TFC052",
    "the task is not an object",
    why="TensorFlow finds no type and no index in it, and raises a ValueError or a TypeError that "
    "does not name TF_CONFIG",
    cure=_WRITE,
)
NO_TYPE = mistake("TFC053", "the task has no type", why=_NEEDS_BOTH, cure=_WRITE)
NO_INDEX = mistake("TFC054", "the task has no index", why=_NEEDS_BOTH, cure=_WRITE)
TYPE_NOT_TEXT = mistake(
    "TFC055",
    "the task's type is not a text",
    why=_UNRECOGNIZED,
    cure='write one of "chief", "worker" and "evaluator"',
)
TYPE_CASE = mistake(
    "TFC056", "the task's type is in the wrong case", why=_UNRECOGNIZED, cure='write "$meant"'
)
TYPE_SPELLING = mistake(
    "TFC057",
    "the task's type is misspelt or in the plural",
    why=_UNRECOGNIZED,
    cure='write "$meant"',
)
TYPE_MASTER = mistake(
    "TFC058",
    "the task's type has the old name master",
    why=_UNRECOGNIZED,
    cure='write "chief", and name the job in the cluster so',
)
UNKNOWN_TYPE = mistake(
    "TFC059",
    "the task's type is not one that TensorFlow knows",
    why=_UNRECOGNIZED,
    cure='write one of "chief", "worker" and "evaluator"',
)
NOT_IN_CLUSTER = mistake(
    "TFC060",
    "the task's type is not in the cluster",
    why="TensorFlow raises ValueError '`task_type` ... not found in cluster_spec.'",
    cure="add the job $job to the cluster of every task, or write one of its jobs: $jobs",
)
EVALUATOR_ALONE = mistake(
    "TFC061",
    "the evaluator is not in its own cluster",
    why="MultiWorkerMirroredStrategy raises \"KeyError: 'evaluator'\" and nothing else",
    cure='add "evaluator": ["host:2222"] to the cluster of the evaluator; the other tasks may '
    "have it or not",
)
PARAMETER_SERVER = mistake(
    "TFC062",
    "the task is a parameter server",
    why="MultiWorkerMirroredStrategy raises ValueError \"There is no id for task_type 'ps'\"",
    cure="start no process for ps, and remove it from the cluster; all tasks are workers",
)
INDEX_NOT_A_NUMBER = mistake(
    "TFC063",
    "the task's index is not a number",
    why="TensorFlow raises an error about int() that does not name TF_CONFIG",
    cure='write the place of this task in its job, from 0 on: "index": 0',
)
INDEX_BOOL = mistake(
    "TFC064",
    "the task's index is true or false",
    why="TensorFlow reads false as 0 and true as 1: an index that nobody wrote",
    cure='write the place of this task in its job, from 0 on: "index": 0',
)
INDEX_FRACTION = mistake(
    "TFC065",
    "the task's index is a fraction",
    why="TensorFlow cuts it to $index: two tasks have one index, one has none, and all hang",
    cure='write a whole number: "index": 0',
)
INDEX_FLOAT = mistake(
    "TFC066",
    "the task's index is written with a decimal point",
    severity="warning",
    why="TensorFlow reads it as $index; other programs refuse it",
    cure='write "index": $index',
)
INDEX_NEGATIVE = mistake(
    "TFC067",
    "the task's index is negative",
    why="TensorFlow raises InvalidArgumentError 'Invalid device filter: /job:...'",
    cure="write the place of this task in its job, from 0 on",
)
INDEX_RANGE = mistake(
    "TFC068",
    "the task's index is not in the cluster",
    why="TensorFlow raises ValueError 'The `task_id` $index exceeds the maximum id of $job.'",
    cure="write an index from 0 to $last, or add the task's address to cluster.$job of every task",
)


def check_task(document: Document) -> Iterator[Finding]:
    """Whether a cluster comes with a task; without a cluster nothing asks for it."""
    task = document.task
    if task is MISSING:
        if document.cluster is not MISSING:
            yield NO_TASK.at("task", task)
    elif task is None:
        yield TASK_NULL.at("task", task)
    elif not isinstance(task, dict):
        yield NOT_AN_OBJECT.at("task", task)


def check_type(document: Document) -> Iterator[Finding]:
    """Whether the type is one of TensorFlow's."""
    if not isinstance(document.task, dict):
        return
    given = document.task_field("type")
    if given is MISSING:
        yield NO_TYPE.at("task.type", given)
    elif not isinstance(given, str):
        yield TYPE_NOT_TEXT.at("task.type", given)
    # A job of the cluster with the same wrong name is the same mistake.
    elif not any(job.given == given for job in document.jobs):
        yield from _type_spelling(given, document.task_type)


def _type_spelling(given: str, meant: str | None) -> Iterator[Finding]:
    plain = given.lower()
    if given == meant:
        return
    if plain == "master":
        yield TYPE_MASTER.at("task.type", given)
    elif meant is None:
        yield UNKNOWN_TYPE.at("task.type", given)
    else:
        kind = TYPE_CASE if plain == meant else TYPE_SPELLING
        yield kind.at("task.type", given, meant=meant)


def check_membership(document: Document) -> Iterator[Finding]:
    """Whether the task's type may train, and is a job of the cluster."""
    name, job = document.task_type, document.job(document.task_type)
    if name is None or not document.jobs:
        return
    if name == "ps":
        yield PARAMETER_SERVER.at("task.type", name)
    elif name == "evaluator" and (job is None or job.value in ([], {})):
        yield EVALUATOR_ALONE.at("task.type", name)
    # A job whose name is not understood may be the one that is meant.
    elif job is None and all(job.name for job in document.jobs):
        jobs = ", ".join(job.given for job in document.jobs)
        yield NOT_IN_CLUSTER.at("task.type", name, job=name, jobs=jobs)


def check_index(document: Document) -> Iterator[Finding]:
    """Whether the index is a whole number that the job has a task for."""
    given = document.task_field("index")
    index = as_index(given)
    if given is MISSING:
        if isinstance(document.task, dict):
            yield NO_INDEX.at("task.index", given)
    elif index is None:
        yield INDEX_NOT_A_NUMBER.at("task.index", given)
    elif isinstance(given, bool):
        yield INDEX_BOOL.at("task.index", given)
    elif index < 0:
        yield INDEX_NEGATIVE.at("task.index", given)
    elif isinstance(given, float) and given != index:
        yield INDEX_FRACTION.at("task.index", given, index=index)
    else:
        yield from _in_job(given, index, document.job(document.task_type))


def _in_job(given: Any, index: int, job: Job | None) -> Iterator[Finding]:
    if job is not None and job.indices and index not in job.indices:
        last = job.indices[-1]
        yield INDEX_RANGE.at("task.index", given, index=index, job=job.name, last=last)
    elif isinstance(given, float):
        yield INDEX_FLOAT.at("task.index", given, index=index)
