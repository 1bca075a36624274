"""The cluster that a strategy is about to be made for: read, checked on this machine, compared.

TF_CONFIG or a resolver -> lint with the network's answers -> TFConfig
TensorFlow's time-out   -> which tasks are absent
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tfdist_kit._errors import UsageError
from tfdist_kit.tf_config import (
    Finding,
    Task,
    TFConfig,
    accepts_connections,
    can_bind,
    is_own_address,
    lint_environ,
    raise_errors,
    resolves,
    split_address,
)

NAME_SERVICE_PATIENCE = 20.0
"""Seconds in which a host's name may become known; a scheduler's may take a while at the start."""

_CURED_HERE = ("TFC026", "TFC074")  # ps in the cluster, a proxy between the tasks
_TIMED_OUT = re.compile(r"timed out task names:((?:\s*/job:\S+)+)")
_TASK_NAME = re.compile(r"/job:(\w+)/replica:\d+/task:(\d+)")

_log = logging.getLogger(__name__)


def from_environ(
    environ: Mapping[str, str], *, refuse_single: bool, warn: bool, asks_port: bool
) -> TFConfig:
    """Read TF_CONFIG and check it against this machine.

    Args:
        environ: The environment.
        refuse_single: Whether a TF_CONFIG that is set but has no cluster is an error.
        warn: Whether such a TF_CONFIG is at least worth a warning.
        asks_port: Whether the own port must be free.

    Returns:
        What TF_CONFIG says; without a cluster where training would be on this machine alone.

    Raises:
        TFConfigError: It cannot work.
    """
    findings = lint_environ(
        environ,
        resolve=_PatientResolver(time.monotonic() + NAME_SERVICE_PATIENCE),
        can_bind=can_bind if asks_port else None,
        is_own_address=is_own_address,
    )
    if not refuse_single and _trains_alone(environ.get("TF_CONFIG", "{}")):
        _report(findings, logging.WARNING if warn else logging.DEBUG)
        return TFConfig()
    raise_errors(findings)
    _report([finding for finding in findings if finding.code not in _CURED_HERE], logging.WARNING)
    return TFConfig.from_env(environ)


def _trains_alone(text: str) -> bool:
    """Whether TensorFlow would find no cluster in TF_CONFIG, and train alone without a word."""
    try:
        root = json.loads(text)
    except ValueError:
        return False
    return not (isinstance(root, dict) and root.get("cluster"))


def _report(findings: Iterable[Finding], level: int) -> None:
    for finding in findings:
        _log.log(level, "%s", finding)


class _PatientResolver:
    """Asks the name service again and again until a deadline that all hosts share."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline

    def __call__(self, host: str) -> str | None:
        reason = resolves(host)
        if reason is not None:
            _log.warning("the host %s cannot be resolved yet: %s", host, reason)
        while reason is not None and time.monotonic() < self._deadline:
            time.sleep(0.5)
            reason = resolves(host)
        return reason


def from_resolver(resolver: Any) -> TFConfig:
    """What a `tf.distribute.cluster_resolver.ClusterResolver` says, as a TFConfig.

    Raises:
        UsageError: It is none.
    """
    if not hasattr(resolver, "cluster_spec"):
        raise UsageError(
            f"cluster_resolver is {resolver!r}",
            hint="give a tf.distribute.cluster_resolver.ClusterResolver, or leave it out",
        )
    jobs = resolver.cluster_spec().as_dict()
    if not jobs:
        return TFConfig()
    task = {"type": resolver.task_type, "index": resolver.task_id}
    return TFConfig.parse({"cluster": jobs, "task": task})


def absent_tasks(config: TFConfig, message: str) -> tuple[Task, ...]:
    """Which tasks did not join.

    Args:
        config: The cluster.
        message: TensorFlow's error; the leader's own names the tasks, that of others does not.

    Returns:
        The tasks that TensorFlow names, else those whose address nobody listens on.
    """
    assert config.cluster is not None
    if told := _TIMED_OUT.search(message):
        return tuple(Task(job, int(index)) for job, index in _TASK_NAME.findall(told[1]))
    peers = [task for task in config.cluster.training_tasks if task != config.task]
    addresses = [config.cluster.address(task) for task in peers]
    with ThreadPoolExecutor(max_workers=min(16, len(peers))) as pool:
        answers = list(pool.map(accepts_connections, addresses))
    return tuple(task for task, answer in zip(peers, answers, strict=True) if answer is not None)


def hosts(config: TFConfig) -> list[str]:
    """The hosts of the cluster."""
    assert config.cluster is not None
    addresses = (config.cluster.address(task) for task in config.cluster.tasks)
    return [split_address(address)[0] for address in addresses]
