"""The strategy in programs that any launcher may have started: with TF_CONFIG and nothing of ours.

All of them run at the same time, forked from one process that has imported TensorFlow.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.forks import Ended, run_programs
from tests.once import once
from tfdist_kit.launcher.network.ports import HeldPorts
from tfdist_kit.tf_config import ClusterSpec, TFConfig

HAS_A_BARRIER = not version("tensorflow").startswith("2.18.")
ABSENT = """
import tfdist_kit
try: tfdist_kit.multi_worker_mirrored(join_timeout=2)
except tfdist_kit.JoinTimeoutError as error: print(error.missing, error)
"""
# The call is on line 2, behind functions of TensorFlow and of Keras.
EARLY = """import tensorflow as tf, tfdist_kit
layer = tf.keras.layers.Dense(2); layer.build((None, 3))
try: tfdist_kit.multi_worker_mirrored()
except RuntimeError as error: print(type(error).__name__, error)
"""
EARLIER = """
import tensorflow as tf; tf.constant(1); import tfdist_kit
try: tfdist_kit.multi_worker_mirrored()
except tfdist_kit.TooLateError as error: print(error)
"""
GRAPH = """
import tensorflow as tf, tfdist_kit
tf.constant(1)
spec = tf.distribute.cluster_resolver.TFConfigClusterResolver().cluster_spec()
server = tf.distribute.Server(spec, job_name='worker', task_index=0)
with tf.Graph().as_default():
    strategy = tfdist_kit.multi_worker_mirrored(api='compat.v1')
    print(strategy.num_replicas_in_sync)
"""
NO_CONFIG = """
import tfdist_kit
print(tfdist_kit.multi_worker_mirrored(communication='ring').num_replicas_in_sync)
"""
REFUSED = """
import json, os, tfdist_kit
for code, config in CASES.items():
    os.environ['TF_CONFIG'] = json.dumps(config)
    try: tfdist_kit.multi_worker_mirrored()
    except tfdist_kit.TFConfigError as error:
        assert [finding.code for finding in error.findings] == [code], error
        assert code in str(error), error
        print('refused', code)
os.environ['TF_CONFIG'] = '{}'
for choice in ('warn', 'allow'):
    one = tfdist_kit.multi_worker_mirrored(on_single_worker=choice)
    print(choice, one.num_replicas_in_sync)
"""
RESOLVER = """
import tensorflow as tf, tfdist_kit
resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
    tf.train.ClusterSpec(JOBS), task_type='worker', task_id=INDEX)
strategy = tfdist_kit.multi_worker_mirrored(cluster_resolver=resolver)
@tf.function
def total():
    one = lambda: tf.distribute.get_replica_context().all_reduce("sum", tf.identity(1.0))
    return strategy.run(one)
print("replicas", strategy.num_replicas_in_sync, "sum", float(total()))
"""


def single_tasks(ports: Iterator[int]) -> dict[str, tuple[str, str | None]]:
    """One of two workers, where the other never comes; each in a cluster of its own."""
    absent = {"leader": (ABSENT, 1)}
    if HAS_A_BARRIER:
        absent["worker"] = (ABSENT, 0)
    texts = {**absent, "early": (EARLY, 0), "earlier": (EARLIER, 0), "graph": (GRAPH, 0)}
    return {
        name: (text, two_workers(ports).for_task("worker", index).to_json())
        for name, (text, index) in texts.items()
    }


def two_workers(ports: Iterator[int]) -> TFConfig:
    return TFConfig(ClusterSpec.local(workers=2, ports=(next(ports), next(ports))))


def refused(free: int, busy: int) -> dict[str, dict[str, Any]]:
    """By code, what hangs or silently trains alone on TensorFlow alone."""
    here, there = f"localhost:{free}", "localhost:2"
    worker = {"type": "worker", "index": 0}
    return {
        "TFC005": {},
        "TFC011": {"Cluster": {"worker": [here, there]}, "task": worker},
        "TFC010": {"task": worker},
        "TFC014": {"cluster": {}, "task": worker},
        "TFC072": {"cluster": {"worker": [f"localhost:{busy}", there]}, "task": worker},
    }


def run_all(folder: Path) -> dict[str, Ended]:
    with HeldPorts(13) as held, socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        ports = iter(held.numbers)
        cases = refused(next(ports), taken.getsockname()[1])
        cluster = two_workers(ports).cluster
        assert cluster is not None
        resolver = RESOLVER.replace("JOBS", json.dumps(cluster.to_dict()))
        programs = {
            **single_tasks(ports),
            "refused": (REFUSED.replace("CASES", repr(cases)), None),
            "no TF_CONFIG": (NO_CONFIG, None),
            **{f"resolver {n}": (resolver.replace("INDEX", str(n)), None) for n in (0, 1)},
        }
        return run_programs(folder, programs)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    """How each of the programs ended."""
    return once(tmp_path_factory, __name__, run_all)


@pytest.mark.parametrize("name", ["worker", "leader"])
def test_an_absent_task_is_named(ended: dict[str, Ended], name: str) -> None:
    if name == "worker" and not HAS_A_BARRIER:
        pytest.skip("TensorFlow 2.18 has no registration barrier")
    absent = {"worker": "worker:1", "leader": "worker:0"}[name]
    assert ended[name].code == 0, ended[name].err
    assert ended[name].out.startswith(f"('{absent}',) TFD022: {absent} (localhost:")
    assert "did not join within 2 s" in ended[name].out


def test_what_initialised_tensorflow_too_early_is_named(ended: dict[str, Ended]) -> None:
    early, earlier = ended["early"], ended["earlier"]
    assert (early.code, earlier.code) == (0, 0), early.err + earlier.err
    told = "TooLateError TFD021: TensorFlow was initialised before the strategy, by "
    assert early.out.startswith(told)
    assert "early.py:2: layer = tf.keras.layers.Dense(2)" in early.out.splitlines()[0]
    assert "by a call before tfdist_kit was imported" in earlier.out


def test_graph_mode_waits_for_nobody_and_may_come_late(ended: dict[str, Ended]) -> None:
    """The user's own servers make the cluster there, before or after the strategy."""
    graph = ended["graph"]
    assert (graph.code, graph.out) == (0, "2\n"), graph.err


def test_what_is_refused_before_tensorflow_is_touched(ended: dict[str, Ended]) -> None:
    told = ended["refused"]
    assert told.code == 0, told.err
    codes = [f"refused {code}" for code in refused(0, 0)]
    assert told.out.splitlines() == [*codes, "warn 1", "allow 1"]
    assert told.err.count("TFC005 error: TF_CONFIG is an empty object") == 1


def test_without_tf_config_it_trains_here_alone_and_says_so(ended: dict[str, Ended]) -> None:
    told = ended["no TF_CONFIG"]
    assert (told.code, told.out) == (0, "1\n"), told.err
    assert "TF_CONFIG is not set" in told.err


def test_a_resolver_takes_the_place_of_tf_config(ended: dict[str, Ended]) -> None:
    told = [ended[f"resolver {n}"] for n in (0, 1)]
    assert [(each.code, each.out) for each in told] == [(0, "replicas 2 sum 2.0\n")] * 2, told
