"""The strategy on live workers: what works, and what is refused before anything can hang."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.commands import Command, script, tfdist
from tfdist_kit.launcher.network.ports import HeldPorts
from tfdist_kit.tf_config import ClusterSpec, TFConfig

QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3"}
SUM = """
@tf.function
def total():
    one = lambda: tf.distribute.get_replica_context().all_reduce("sum", tf.identity(1.0))
    return strategy.run(one)
print("replicas", strategy.num_replicas_in_sync, "sum", float(total()))
"""


def python(folder: Path, text: str, tf_config: str | None = None) -> subprocess.Popen[str]:
    """Start a script as any other launcher would: with TF_CONFIG and nothing of ours."""
    env = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"} | QUIET
    if tf_config is not None:
        env["TF_CONFIG"] = tf_config
    return subprocess.Popen(
        [sys.executable, "-c", text],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def outcome(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        pytest.fail(f"hung: {out}{err}")
    return process.returncode, out, err


def test_two_workers_with_a_ps_job_behind_a_proxy(tmp_path: Path) -> None:
    """What hangs for ever on TensorFlow alone: a ps in the cluster, and a proxy variable."""
    name = script(
        tmp_path,
        "import json, os\n"
        "import tensorflow as tf, tfdist_kit\n"
        "config = json.loads(os.environ['TF_CONFIG'])\n"
        "config['cluster']['ps'] = ['localhost:2']\n"
        "os.environ['TF_CONFIG'] = json.dumps(config)\n"
        "os.environ['http_proxy'] = 'http://127.0.0.1:9'\n"
        "os.environ.pop('no_proxy', None)\n"
        "strategy = tfdist_kit.multi_worker_mirrored()\n"
        "assert type(strategy) is tf.distribute.MultiWorkerMirroredStrategy\n"
        "again = tfdist_kit.multi_worker_mirrored()\n"
        "assert again.num_replicas_in_sync == 2\n" + SUM,
    )
    result = tfdist("run", "--timeout", "90", name, folder=tmp_path, env=QUIET)
    assert result.code == 0, result.err
    lines = [f"[rank {rank}] replicas 2 sum 2.0" for rank in (0, 1)]
    assert sorted(result.out.splitlines()) == lines


def test_the_compat_v1_class_with_the_documents_argument(tmp_path: Path) -> None:
    name = script(
        tmp_path,
        "import tensorflow as tf, tfdist_kit\n"
        "ring = tf.distribute.experimental.CollectiveCommunication.RING\n"
        "strategy = tfdist_kit.multi_worker_mirrored(api='compat.v1', communication=ring)\n"
        "wanted = tf.compat.v1.distribute.experimental.MultiWorkerMirroredStrategy\n"
        "assert type(strategy) is wanted\n" + SUM,
    )
    args = ["--chief", "-n", "1", "--timeout", "90"]
    result = tfdist("run", *args, name, folder=tmp_path, env=QUIET)
    assert result.code == 0, result.err
    assert result.out.count("replicas 2 sum 2.0") == 2


def two_workers(ports: tuple[int, ...]) -> TFConfig:
    return TFConfig(ClusterSpec.local(workers=2, ports=ports))


@pytest.mark.parametrize("index", [0, 1], ids=["the worker is absent", "the leader is absent"])
def test_an_absent_task_is_named(tmp_path: Path, index: int) -> None:
    if index == 0 and version("tensorflow").startswith("2.18."):
        pytest.skip("TensorFlow 2.18 has no registration barrier")
    absent = f"worker:{1 - index}"
    with HeldPorts(2) as held:
        config = two_workers(held.numbers)
        process = python(
            tmp_path,
            "import tfdist_kit\n"
            "try: tfdist_kit.multi_worker_mirrored(join_timeout=2)\n"
            "except tfdist_kit.JoinTimeoutError as error: print(error.missing, error)\n",
            config.for_task("worker", index).to_json(),
        )
        code, out, err = outcome(process)
    assert code == 0, err
    assert out.startswith(f"('{absent}',) TFD022: {absent} (localhost:")
    assert "did not join within 2 s" in out


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


def test_what_initialised_tensorflow_too_early_is_named(tmp_path: Path) -> None:
    with HeldPorts(2) as held:
        config = two_workers(held.numbers).for_task("worker", 0).to_json()
        # The call is on line 2, behind functions of TensorFlow and of Keras.
        process = python(
            tmp_path,
            "import tensorflow as tf, tfdist_kit\n"
            "layer = tf.keras.layers.Dense(2); layer.build((None, 3))\n"
            "try: tfdist_kit.multi_worker_mirrored()\n"
            "except RuntimeError as error: print(type(error).__name__, error)\n",
            config,
        )
        late = python(
            tmp_path,
            "import tensorflow as tf; tf.constant(1); import tfdist_kit\n"
            "try: tfdist_kit.multi_worker_mirrored()\n"
            "except tfdist_kit.TooLateError as error: print(error)\n",
            config,
        )
        code, out, err = outcome(process)
        late_code, late_out, late_err = outcome(late)
    assert (code, late_code) == (0, 0), err + late_err
    assert (
        "TooLateError TFD021: TensorFlow was initialised before the strategy, by <string>:2" in out
    )
    assert "by a call before tfdist_kit was imported" in late_out


def test_graph_mode_waits_for_nobody_and_may_come_late(tmp_path: Path) -> None:
    """The user's own servers make the cluster there, before or after the strategy."""
    with HeldPorts(2) as held:
        process = python(
            tmp_path,
            "import tensorflow as tf, tfdist_kit\n"
            "tf.constant(1)\n"
            "spec = tf.distribute.cluster_resolver.TFConfigClusterResolver().cluster_spec()\n"
            "server = tf.distribute.Server(spec, job_name='worker', task_index=0)\n"
            "with tf.Graph().as_default():\n"
            "    strategy = tfdist_kit.multi_worker_mirrored(api='compat.v1')\n"
            "    print(strategy.num_replicas_in_sync)\n",
            two_workers(held.numbers).for_task("worker", 0).to_json(),
        )
        code, out, err = outcome(process)
    assert (code, out) == (0, "2\n"), err


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


def test_what_is_refused_before_tensorflow_is_touched(tmp_path: Path) -> None:
    """Each of these hangs, or silently trains alone, on TensorFlow alone."""
    with HeldPorts(1) as held, socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port, busy = held.numbers[0], taken.getsockname()[1]
        here, there = f"localhost:{port}", "localhost:2"
        worker = {"type": "worker", "index": 0}
        cases = {
            "TFC005": {},
            "TFC011": {"Cluster": {"worker": [here, there]}, "task": worker},
            "TFC010": {"task": worker},
            "TFC014": {"cluster": {}, "task": worker},
            "TFC072": {"cluster": {"worker": [f"localhost:{busy}", there]}, "task": worker},
        }
        process = python(
            tmp_path,
            "import json, os, tfdist_kit\n"
            f"for code, config in {cases!r}.items():\n"
            "    os.environ['TF_CONFIG'] = json.dumps(config)\n"
            "    try: tfdist_kit.multi_worker_mirrored()\n"
            "    except tfdist_kit.TFConfigError as error:\n"
            "        assert [finding.code for finding in error.findings] == [code], error\n"
            "        assert code in str(error), error\n"
            "        print('refused', code)\n"
            "os.environ['TF_CONFIG'] = '{}'\n"
            "for choice in ('warn', 'allow'):\n"
            "    one = tfdist_kit.multi_worker_mirrored(on_single_worker=choice)\n"
            "    print(choice, one.num_replicas_in_sync)\n",
        )
        code, out, err = outcome(process)
    assert code == 0, err
    assert out.splitlines() == [*(f"refused {code}" for code in cases), "warn 1", "allow 1"]
    assert err.count("TFC005 error: TF_CONFIG is an empty object") == 1


def test_without_tf_config_it_trains_here_alone_and_says_so(tmp_path: Path) -> None:
    code, out, err = outcome(
        python(
            tmp_path,
            "import tfdist_kit\n"
            "print(tfdist_kit.multi_worker_mirrored(communication='ring').num_replicas_in_sync)\n",
        )
    )
    assert (code, out) == (0, "1\n"), err
    assert "TF_CONFIG is not set" in err


def test_a_resolver_takes_the_place_of_tf_config(tmp_path: Path) -> None:
    with HeldPorts(2) as held:
        jobs = json.dumps(two_workers(held.numbers).cluster.to_dict())  # type: ignore[union-attr]
        text = (
            "import sys, tensorflow as tf, tfdist_kit\n"
            f"resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(\n"
            f"    tf.train.ClusterSpec({jobs}), task_type='worker', task_id=INDEX)\n"
            "strategy = tfdist_kit.multi_worker_mirrored(cluster_resolver=resolver)\n" + SUM
        )
        processes = [python(tmp_path, text.replace("INDEX", str(index))) for index in (0, 1)]
        ends = [outcome(process) for process in processes]
    assert [(code, out) for code, out, _ in ends] == [(0, "replicas 2 sum 2.0\n")] * 2, ends


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


def test_a_missing_tensorflow_is_one_clear_error(tmp_path: Path) -> None:
    code, out, err = outcome(
        python(
            tmp_path,
            "import sys; sys.modules['tensorflow'] = None\n"
            "import tfdist_kit\n"
            "try: tfdist_kit.multi_worker_mirrored()\n"
            "except tfdist_kit.MissingDependencyError as error: print(error)\n",
        )
    )
    assert code == 0, err
    assert "pip install 'tfdist-kit[tensorflow]'" in out
