"""TensorFlow's coordination service, configured before a strategy is made.

These settings exist in TensorFlow's runtime but in none of its public Python names.
"""

from __future__ import annotations

import logging
from typing import Any

from tfdist_kit.adapters._private import private
from tfdist_kit.tf_config import ClusterSpec, Task

_CONTEXT = "tensorflow.python.eager.context"
_STRATEGY = "tensorflow.python.distribute.collective_all_reduce_strategy"
_log = logging.getLogger(__name__)

COORDINATED_JOBS = ("chief", "worker")


def is_initialised() -> bool:
    """Whether TensorFlow's eager context exists already, so that it is too late to configure."""
    return getattr(private(_CONTEXT, "context")(), "_context_handle", None) is not None


def serves_a_cluster() -> bool:
    """Whether an earlier strategy of this process has already joined a cluster."""
    return getattr(private(_CONTEXT, "context")(), "_collective_ops_server_def", None) is not None


def configure(
    cluster: ClusterSpec, *, join_timeout: float | None, heartbeat_timeout: float | None
) -> None:
    """Configure how the tasks of `cluster` find each other and notice each other's death.

    TensorFlow's own default chooses a leader that may be a ps task, waits for ever for a task
    that does not come, and lets some tasks in before all are there.

    Args:
        cluster: The cluster; only its chief and workers coordinate.
        join_timeout: Seconds until a task that has not joined is an error; None waits for ever.
        heartbeat_timeout: Seconds until a silent task counts as dead; None is TensorFlow's own.
    """
    context = private(_CONTEXT, "context")()
    coordinated_job = private(_STRATEGY, "coordination_config_pb2", "CoordinatedJob")
    jobs = [job for job in COORDINATED_JOBS if cluster.jobs.get(job)]
    context.configure_coordination_service(
        service_type="standalone",
        service_leader=f"/job:{jobs[0]}/replica:0/task:0",
        cluster_register_timeout_in_ms=_milliseconds(join_timeout),
        heartbeat_timeout_in_ms=_milliseconds(heartbeat_timeout),
        coordinated_jobs=[
            coordinated_job(name=job, num_tasks=len(cluster.jobs[job])) for job in jobs
        ],
    )
    if join_timeout is not None:
        _register_at_a_barrier(context.coordination_service)


def _register_at_a_barrier(config: Any) -> None:
    """Let nobody in before all are there.

    Without it the leader's own registration succeeds at once, and the leader then waits for the
    others without any deadline.
    """
    if "cluster_register_with_barrier" in config.DESCRIPTOR.fields_by_name:
        config.cluster_register_with_barrier = True
    else:
        _log.warning(
            "TensorFlow before 2.19 cannot give up waiting for an absent worker: join_timeout "
            "holds only where the leader is absent"
        )


def joins(task: Task) -> bool:
    """Whether `task` takes part in the coordination."""
    return task.type in COORDINATED_JOBS


def _milliseconds(seconds: float | None) -> int:
    return 0 if seconds is None else max(1, round(seconds * 1000))
