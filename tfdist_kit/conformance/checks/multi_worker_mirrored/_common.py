"""What several of the checks ask of a strategy and of the cluster."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest

from tfdist_kit.conformance.subjects import Subject

APIS = ("v2", "v1")
both = pytest.mark.parametrize("api", APIS)


def make(subject: Subject, api: str = "v2", **arguments: Any) -> Any:
    """A strategy of one of the two classes."""
    return (subject.make_strategy if api == "v2" else subject.make_strategy_v1)(**arguments)


def one_of_each(subject: Subject, **arguments: Any) -> list[Any]:
    """A strategy of either class, to be looked at; only the last one may be used."""
    return [make(subject, api, **arguments) for api in APIS]


def all_reduced(strategy: Any, value: float, op: str = "sum") -> list[float]:
    """What each local replica gets from an all-reduce of `value` within a step."""
    import tensorflow as tf

    def step() -> Any:
        return tf.distribute.get_replica_context().all_reduce(op, tf.identity(value))

    return [float(one) for one in strategy.experimental_local_results(strategy.run(step))]


def copies(strategy: Any, variable: Any) -> list[float]:
    """The value of each local copy of a variable."""
    return [float(one) for one in strategy.experimental_local_results(variable)]


def is_mirrored(variable: Any) -> bool:
    """Whether a variable calls itself a mirrored one."""
    return repr(variable).startswith("MirroredVariable")


def tf_config() -> Any:
    """The TF_CONFIG of this worker."""
    return json.loads(os.environ["TF_CONFIG"])


@contextmanager
def with_tf_config(config: Mapping[str, Any] | None) -> Iterator[None]:
    """Another TF_CONFIG for a while; None is none."""
    with mock.patch.dict(os.environ):
        if config is None:
            del os.environ["TF_CONFIG"]
        else:
            os.environ["TF_CONFIG"] = json.dumps(config)
        yield


def own_resolver(**more: Any) -> Any:
    """A resolver that was told the cluster and the task of this worker."""
    import tensorflow as tf

    config = tf_config()
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(config["cluster"]),
        task_type=config["task"]["type"],
        task_id=config["task"]["index"],
        **more,
    )
