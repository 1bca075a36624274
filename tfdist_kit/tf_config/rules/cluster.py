"""Rules about the cluster's jobs."""

from __future__ import annotations

from collections.abc import Iterator

from tfdist_kit.tf_config.document import Document, Job
from tfdist_kit.tf_config.findings import MISSING, Finding, mistake

_DISALLOWED = "TensorFlow raises ValueError 'Disallowed task type found in cluster spec'"
_NOT_A_LIST = "TensorFlow raises a TypeError that asks for a list or a dictionary of tasks"

NOT_AN_OBJECT = mistake(
    "TFC013",
    "the cluster is not an object",
    why="TensorFlow raises TypeError '`cluster` must be a dictionary mapping one or more job "
    "names to lists of network addresses'",
    cure='write "cluster": {"worker": ["host0:2222", "host1:2222"]}',
)
NO_JOBS = mistake(
    "TFC014",
    "the cluster has no jobs",
    why="TensorFlow takes it for no cluster and trains alone, without a word",
    cure='name the workers: "cluster": {"worker": ["host0:2222", "host1:2222"]}',
)
JOB_CASE = mistake(
    "TFC020",
    "a job is in the wrong case",
    why=_DISALLOWED,
    cure='rename it to "$meant", here and in the task\'s type',
)
JOB_SPELLING = mistake(
    "TFC021",
    "a job is misspelt or in the plural",
    why=_DISALLOWED,
    cure='rename it to "$meant", here and in the task\'s type',
)
MASTER = mistake(
    "TFC022",
    "a job has the old name master",
    why=_DISALLOWED,
    cure='rename it to "chief", here and in the task\'s type',
)
UNKNOWN_JOB = mistake(
    "TFC023",
    "a job is not one that TensorFlow knows",
    why=_DISALLOWED,
    cure='call it "worker", or remove it; the jobs are: chief, worker, evaluator, ps',
)
CHIEFS = mistake(
    "TFC024",
    "there is more than one chief",
    why="TensorFlow raises ValueError \"There must be at most one 'chief' job.\"",
    cure='keep one address in "chief" and move the others to "worker"',
)
EVALUATORS = mistake(
    "TFC025",
    "there is more than one evaluator",
    why="TensorFlow raises ValueError \"There must be at most one 'evaluator' job.\"",
    cure='keep one address in "evaluator"',
)
PARAMETER_SERVERS = mistake(
    "TFC026",
    "there are parameter servers beside the workers",
    severity="warning",
    why="MultiWorkerMirroredStrategy makes ps:0 the coordination leader and hangs on every "
    "worker; tfdist_kit.multi_worker_mirrored leads by the chief instead",
    cure='remove "ps" from the cluster, or make the strategy by '
    "tfdist_kit.multi_worker_mirrored; parameter servers take no part in it",
)
EMPTY_JOB = mistake(
    "TFC027",
    "a job has no addresses",
    why="$effect",
    cure="list the job's addresses, or remove the job",
)
JOB_NOT_A_LIST = mistake(
    "TFC028",
    "the addresses of a job are not a list",
    why=_NOT_A_LIST,
    cure='write a list: "$job": ["host0:2222", "host1:2222"]',
)
INDEX_KEYS = mistake(
    "TFC029",
    "the keys of a job's addresses are not the indices 0, 1, 2, ...",
    why="TensorFlow raises an error about int() or about a task that is not there, or waits for "
    "the missing task for ever",
    cure='number the addresses without gaps: {"0": "host0:2222", "1": "host1:2222"}, or write a '
    "list",
)


def check_cluster(document: Document) -> Iterator[Finding]:
    """Whether the cluster is an object that names jobs."""
    cluster = document.cluster
    if cluster is not MISSING and not isinstance(cluster, dict):
        yield NOT_AN_OBJECT.at("cluster", cluster)
    elif cluster == {}:
        yield NO_JOBS.at("cluster", cluster)


def check_job_names(document: Document) -> Iterator[Finding]:
    """Whether TensorFlow knows each job."""
    for job in document.jobs:
        plain = job.given.lower()
        if job.given == job.name:
            continue
        if plain == "master":
            yield MASTER.at(job.where, job.given)
        elif job.name is None:
            yield UNKNOWN_JOB.at(job.where, job.given)
        else:
            kind = JOB_CASE if plain == job.name else JOB_SPELLING
            yield kind.at(job.where, job.given, meant=job.name)


def check_job_sizes(document: Document) -> Iterator[Finding]:
    """Whether there are as many chiefs, evaluators and parameter servers as there may be."""
    for job in document.jobs:
        if job.name == "chief" and len(job.indices) > 1:
            yield CHIEFS.at(job.where, job.value)
        if job.name == "evaluator" and len(job.indices) > 1:
            yield EVALUATORS.at(job.where, job.value)
        # A task of type ps is a mistake of its own, and an empty job is one as well.
        if job.given == "ps" and job.indices and document.task_type != "ps":
            yield PARAMETER_SERVERS.at(job.where, job.value)


def check_job_values(document: Document) -> Iterator[Finding]:
    """Whether each job has its addresses in a list, or in an object without gaps."""
    for job in document.jobs:
        if not isinstance(job.value, list | dict):
            yield JOB_NOT_A_LIST.at(job.where, job.value, job=job.name or job.given)
        elif not job.value:
            yield from _empty(job)
        elif not _is_numbered(job):
            yield INDEX_KEYS.at(job.where, list(job.value))


def _empty(job: Job) -> Iterator[Finding]:
    # TensorFlow makes the first task of a chief or ps job the leader without looking whether
    # there is one. It never looks at the evaluators of a training task.
    if job.name in ("chief", "ps"):
        yield EMPTY_JOB.at(job.where, job.value, effect="TensorFlow's process ends with SIGSEGV")
    elif job.name != "evaluator":
        effect = "TensorFlow raises ValueError 'The `task_id` 0 exceeds the maximum id'"
        yield EMPTY_JOB.at(job.where, job.value, effect=effect)


def _is_numbered(job: Job) -> bool:
    return job.indices == tuple(range(len(job.value)))
