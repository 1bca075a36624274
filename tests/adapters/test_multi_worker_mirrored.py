"""The strategy on live workers: what works, and what is refused before anything can hang."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.cluster import run_cluster, run_workers
from tests.commands import Command, script, tfdist

HERE = "tests.adapters.test_multi_worker_mirrored"
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3"}
SUM = """
@tf.function
def total():
    one = lambda: tf.distribute.get_replica_context().all_reduce("sum", tf.identity(1.0))
    return strategy.run(one)
print("replicas", strategy.num_replicas_in_sync, "sum", float(total()))
"""


# In the workers


def total(strategy: Any) -> list[float]:
    import tensorflow as tf

    @tf.function  # type: ignore[untyped-decorator]  # TensorFlow has no types
    def summed() -> Any:
        def one() -> Any:
            return tf.distribute.get_replica_context().all_reduce("sum", tf.identity(1.0))

        return strategy.run(one)

    return [strategy.num_replicas_in_sync, float(summed())]


def with_a_ps_job_behind_a_proxy() -> list[float]:
    import tensorflow as tf

    import tfdist_kit

    config = json.loads(os.environ["TF_CONFIG"])
    config["cluster"]["ps"] = ["localhost:2"]
    os.environ["TF_CONFIG"] = json.dumps(config)
    os.environ["http_proxy"] = "http://127.0.0.1:9"
    os.environ.pop("no_proxy", None)
    strategy = tfdist_kit.multi_worker_mirrored()
    assert type(strategy) is tf.distribute.MultiWorkerMirroredStrategy
    again = tfdist_kit.multi_worker_mirrored()
    assert again.num_replicas_in_sync == 2
    return total(strategy)


def with_the_documents_argument() -> list[float]:
    import tensorflow as tf

    import tfdist_kit

    ring = tf.distribute.experimental.CollectiveCommunication.RING
    strategy = tfdist_kit.multi_worker_mirrored(api="compat.v1", communication=ring)
    wanted = tf.compat.v1.distribute.experimental.MultiWorkerMirroredStrategy
    assert type(strategy) is wanted
    return total(strategy)


# In pytest


def test_two_workers_with_a_ps_job_behind_a_proxy() -> None:
    """What hangs for ever on TensorFlow alone: a ps in the cluster, and a proxy variable."""
    told = run_workers(f"{HERE}:with_a_ps_job_behind_a_proxy", timeout=90)
    assert told == [[2, 2.0]] * 2


def test_the_compat_v1_class_with_the_documents_argument() -> None:
    layout = ("chief", "worker")
    told = run_cluster(f"{HERE}:with_the_documents_argument", layout, timeout=90)
    assert told == [[2, 2.0]] * 2


def test_a_debugged_worker_may_join_as_late_as_it_likes(tmp_path: Path) -> None:
    name = script(
        tmp_path,
        "import os, time, tfdist_kit\n"
        "from tfdist_kit.launcher.inside import report\n"
        "say, late = report.say, os.environ['TFDIST_RANK'] == '1'\n"
        "def wait_and_say(phase):\n"
        "    if phase == 'joining' and late: time.sleep(4)\n"
        "    say(phase)\n"
        "report.say = wait_and_say\n"
        "print(tfdist_kit.multi_worker_mirrored(join_timeout=1).num_replicas_in_sync)\n",
    )
    result = tfdist("run", "--debug-rank", "1", "--tee", name, folder=tmp_path, env=QUIET)
    assert result.code == 0, result.err
    assert sorted(result.out.splitlines()) == ["2", "[rank 0] 2"]


def test_the_same_is_told_of_a_stock_strategy_under_tfdist_run(tmp_path: Path) -> None:
    name = script(
        tmp_path,
        "import tensorflow as tf\n"
        "table = tf.range(3)\n"
        "strategy = tf.distribute.MultiWorkerMirroredStrategy()\n",
    )
    result = tfdist("run", "--grace", "1", name, folder=tmp_path, env=QUIET)
    assert result.code == 1
    assert "Collective ops must be configured at program startup" in result.err
    assert "before the strategy, by train.py:2: table = tf.range(3)" in result.err


def test_a_frozen_peer_is_noticed_within_the_heartbeat_timeout(tmp_path: Path) -> None:
    name = script(
        tmp_path,
        "import os, signal, time\n"
        "import tensorflow as tf, tfdist_kit\n"
        "strategy = tfdist_kit.multi_worker_mirrored(heartbeat_timeout=4)\n" + SUM + "begin = "
        "time.monotonic()\n"
        "if os.environ['TFDIST_RANK'] == '1':\n"
        "    time.sleep(1)  # the peer may still read from it\n"
        "    os.kill(os.getpid(), signal.SIGSTOP)\n"
        "try: total()\n"
        "except tf.errors.UnavailableError: print('after', time.monotonic() - begin); raise\n",
    )
    args = ["--drain", "0.1", "--grace", "0.1", "--timeout", "90"]
    with Command(["run", *args, name], tmp_path, QUIET) as command:
        result = command.result()
        command.assert_nothing_lives()
    assert result.code == 1
    [seconds] = [float(line.split()[-1]) for line in result.out.splitlines() if "after" in line]
    assert seconds < 9  # TensorFlow's own is 10 s
    assert "rank 1 (worker:1) stopped answering" in result.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("api='v3'", "api is 'v3'"),
        ("on_single_worker='maybe'", "on_single_worker is 'maybe'"),
        ("join_timeout=0", "join_timeout is 0"),
        ("heartbeat_timeout=-1", "heartbeat_timeout is -1"),
        ("api='compat.v1', communication_options=1", "which the compat.v1 class does not take"),
    ],
)
def test_wrong_arguments(arguments: str, told: str) -> None:
    import tfdist_kit

    with pytest.raises(tfdist_kit.UsageError, match=told):
        eval(f"tfdist_kit.multi_worker_mirrored({arguments})")


def test_a_missing_tensorflow_is_one_clear_error() -> None:
    text = (
        "import sys; sys.modules['tensorflow'] = None\n"
        "import tfdist_kit\n"
        "try: tfdist_kit.multi_worker_mirrored()\n"
        "except tfdist_kit.MissingDependencyError as error: print(error)\n"
    )
    env = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
    done = subprocess.run(
        [sys.executable, "-c", text], env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "pip install 'tfdist-kit[tensorflow]'" in done.stdout
