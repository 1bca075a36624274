"""`LocalCluster`: functions run in live workers. Only the last tests need TensorFlow in them."""

from __future__ import annotations

import importlib
import json
import operator
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.commands import script
from tests.launcher import in_workers
from tfdist_kit import (
    ClusterError,
    ClusterTimeoutError,
    LocalCluster,
    UsageError,
    WorkerError,
    WorkerLostError,
)
from tfdist_kit.launcher import RemoteTraceback, close_pool
from tfdist_kit.launcher.hangs import proc


def bare(folder: Path, workers: int = 2, **options: Any) -> LocalCluster:
    """A cluster of fresh interpreters, which need no TensorFlow."""
    return LocalCluster(workers, log_dir=folder / "logs", preload=(), **{"drain": 0.3, **options})


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with bare(tmp_path) as made:
        yield made


def test_results_come_in_rank_order(cluster: LocalCluster) -> None:
    assert cluster.run(in_workers.rank) == [0, 1]
    assert cluster.run(in_workers.rank, ranks=[1]) == [1]
    assert cluster.run(in_workers.echo, value={"a": (1, "b")}) == [{"a": (1, "b")}] * 2


def test_roles(tmp_path: Path) -> None:
    with bare(tmp_path, 1, chief=True, evaluator=True, env={"A": "b"}) as made:
        tasks = ["chief:0", "worker:0", "evaluator:0"]
        assert made.run(in_workers.task) == tasks
        assert made.run(in_workers.variable, "A") == ["b"] * 3


def test_workers_live_on_between_calls_and_not_beyond_a_restart(cluster: LocalCluster) -> None:
    cluster.run(in_workers.keep, 1)
    assert cluster.run(in_workers.keep, 2) == [[1, 2]] * 2
    before = cluster.pid(0)
    cluster.restart()
    assert cluster.pid(0) != before
    assert cluster.run(in_workers.keep, 3) == [[3]] * 2
    assert sorted(path.name for path in cluster.run_dir.glob("att*")) == ["attempt_0", "attempt_1"]


def test_large_arguments_and_results(cluster: LocalCluster) -> None:
    data = bytes(20_000_000)
    assert cluster.run(in_workers.size_of, data) == [len(data)] * 2
    assert cluster.run(in_workers.echo, data) == [data] * 2


def test_output_by_rank(cluster: LocalCluster) -> None:
    cluster.run(in_workers.write, "says")
    assert cluster.output(1) == "rank 1 says\n"
    assert cluster.output(0, "stderr") == "rank 0 complains\n"
    cluster.restart()
    assert cluster.output(1) == ""


def test_a_private_network(tmp_path: Path) -> None:
    with bare(tmp_path, isolate=True) as made:
        inside = made.run(os.readlink, "/proc/self/ns/net")
        assert inside[0] == inside[1] != os.readlink("/proc/self/ns/net")


def test_lambdas_and_closures(cluster: LocalCluster) -> None:
    two = 2
    assert cluster.run(lambda x: x + two, 3) == [5, 5]


MAIN = """\
import sys
from tfdist_kit import LocalCluster
import functools
def double(x): return 2 * x + offset
offset = 1
class Number:
    def __init__(self, value): self.value = value
class Odd(Exception): pass
def refuse(number): raise Odd(number.value)
def same(value): return value
if __name__ == "__main__":
    if "without" in sys.argv:
        sys.modules["cloudpickle"] = None
    with LocalCluster(1, log_dir=sys.argv[1], preload=()) as cluster:
        print(cluster.run(double, 4))
        print(cluster.run(functools.partial(double, 4)), cluster.run(same, Number(3))[0].value)
        try: cluster.run(refuse, Number(5))
        except Odd as error: print("odd", error, "of rank", error.__cause__.rank)
"""


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ([], "[9]\n[9] 3\nodd 5 of rank 0\n"),
        (["without"], "by name: something in it is defined in __main__"),
    ],
)
def test_functions_of_the_main_program(tmp_path: Path, more: list[str], told: str) -> None:
    done = subprocess.run(
        [sys.executable, script(tmp_path, MAIN), str(tmp_path / "logs"), *more],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert told in (done.stderr if more else done.stdout), done.stderr
    assert ("pip install 'tfdist-kit[cloudpickle]'" in done.stderr) == bool(more)


# Failures


def test_an_exception_comes_back_with_its_rank_and_traceback(cluster: LocalCluster) -> None:
    with pytest.raises(KeyError, match="bad row") as caught:
        cluster.run(in_workers.fail, 1)
    cause = caught.value.__cause__
    assert isinstance(cause, RemoteTraceback)
    assert cause.rank == 1
    assert "in rank 1 (worker:1):" in str(cause)
    assert 'in_workers.py", line' in str(cause)
    assert "tfdist_kit" not in cause.text
    assert cluster.run(in_workers.rank) == [0, 1], "the others have answered: it goes on"


def test_the_cause_is_told_and_not_its_consequence(tmp_path: Path) -> None:
    with (
        bare(tmp_path, drain=60) as cluster,
        pytest.raises(KeyError, match="the cause") as caught,
    ):
        cluster.run(in_workers.fail_after_a_peer)
    assert "consequence: rank 0 (worker:0) raised UnavailableError" in str(caught.value.__cause__)


def test_an_exception_that_cannot_be_brought_back(cluster: LocalCluster) -> None:
    with pytest.raises(WorkerError, match="raised Local: of a class that has no name") as caught:
        cluster.run(in_workers.raise_what_cannot_be_sent, ranks=[1])
    assert caught.value.rank == 1
    assert "in_workers.py" in caught.value.traceback


def test_a_result_that_cannot_be_brought_back(cluster: LocalCluster) -> None:
    with pytest.raises(UsageError, match="returned a generator, which cannot be brought back"):
        cluster.run(in_workers.return_what_cannot_be_sent)


def test_peers_of_a_failed_worker_have_only_so_long(cluster: LocalCluster) -> None:
    begin = time.monotonic()
    with pytest.raises(KeyError):
        cluster.run(in_workers.fail, 0, 60)
    assert time.monotonic() - begin < 5
    with pytest.raises(ClusterError, match="a worker of it died or hung; restart"):
        cluster.run(in_workers.rank)
    cluster.restart()
    assert cluster.run(in_workers.rank) == [0, 1]


def test_a_worker_that_dies(cluster: LocalCluster) -> None:
    with pytest.raises(WorkerLostError, match=r"rank 1 \(worker:1\) was killed by SIGKILL") as lost:
        cluster.run(in_workers.die, 1)
    assert (lost.value.rank, lost.value.returncode) == (1, -9)


def test_a_worker_that_leaves(cluster: LocalCluster) -> None:
    with pytest.raises(WorkerLostError, match=r"rank 0 \(worker:0\) left with exit code 7"):
        cluster.run(in_workers.leave, 7, ranks=[0])


def test_a_worker_that_is_killed_can_be_left_out(cluster: LocalCluster) -> None:
    cluster.kill(1)
    with pytest.raises(WorkerLostError, match="was killed by SIGKILL"):
        cluster.run(in_workers.rank)
    assert cluster.run(in_workers.rank, ranks=[0]) == [0]
    cluster.terminate(0)
    with pytest.raises(WorkerLostError, match="was killed by SIGTERM"):
        cluster.run(in_workers.hang, 0, ranks=[0])


def test_a_function_that_hangs(cluster: LocalCluster) -> None:
    begin = time.monotonic()
    with pytest.raises(ClusterTimeoutError, match=r"rank 1 .* did not return within 0.5 s") as late:
        cluster.run(in_workers.hang, 1, timeout=0.5)
    assert late.value.ranks == (1,)
    assert "rank 1 (worker:1) is at" in str(late.value)
    assert "time.sleep(60)" in str(late.value)
    assert time.monotonic() - begin < 5


def test_the_clusters_own_deadline(tmp_path: Path) -> None:
    with bare(tmp_path, 1, timeout=0.2) as made, pytest.raises(ClusterTimeoutError):
        made.run(in_workers.hang, 0)


# Misuse


def test_what_cannot_be_done_is_said(cluster: LocalCluster) -> None:
    with pytest.raises(UsageError, match="there is no rank 2"):
        cluster.run(in_workers.rank, ranks=[2])
    with pytest.raises(UsageError, match="cannot be called"):
        cluster.run(1)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="cannot be sent to the workers"):
        cluster.run(in_workers.echo, (number for number in range(3)))


def test_a_cluster_that_is_not_open(tmp_path: Path) -> None:
    made = bare(tmp_path)
    with pytest.raises(ClusterError, match="has not been started; use it in a with statement"):
        made.run(in_workers.rank)
    with made:
        pass
    with pytest.raises(ClusterError, match="it has been closed"):
        made.run(in_workers.rank)
    with pytest.raises(UsageError, match="the number of workers is 0"):
        bare(tmp_path, 0)
    with pytest.raises(UsageError, match="the variable TF_CONFIG was given"):
        bare(tmp_path, env={"TF_CONFIG": "{}"})


# Ends


DIES = """\
import os, signal, sys
from tfdist_kit import LocalCluster
cluster = LocalCluster(2, log_dir=sys.argv[1], preload=()).__enter__()
print(cluster.pid(0), cluster.pid(1), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_workers_end_with_the_program_that_made_them(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, script(tmp_path, DIES), str(tmp_path / "logs")],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    pids = done.stdout.split()
    assert len(pids) == 2
    assert_dead(*map(int, pids))


def assert_dead(*pids: int) -> None:
    """They end within two seconds; whether anybody has asked how is not our affair."""
    deadline = time.monotonic() + 2
    while any(map(proc.start_time, pids)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(map(proc.start_time, pids))


FORKS = """\
import os, sys, time
from tfdist_kit import ClusterError, LocalCluster
with LocalCluster(1, log_dir=sys.argv[1], preload=()) as cluster:
    if os.fork() == 0:
        if sys.argv[2] == "unwinds":
            try: cluster.run(os.getpid)
            except ClusterError as error: sys.exit("belongs to" not in str(error))
        for fd in (1, 2): os.close(fd)
        time.sleep(3); os._exit(0)
    if sys.argv[2] == "unwinds":
        if os.wait()[1]: sys.exit(1)
        print(cluster.run(os.getpid) == [cluster.pid(0)])
    else:
        print(cluster.pid(0), flush=True)
        os.kill(os.getpid(), 9)
"""


def test_a_fork_of_the_program_does_not_end_its_workers(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, script(tmp_path, FORKS), str(tmp_path / "logs"), "unwinds"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "True\n", done.stderr


def test_a_fork_of_the_program_does_not_keep_its_workers(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, script(tmp_path, FORKS), str(tmp_path / "logs"), "lives on"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert_dead(int(done.stdout))


def test_an_interrupted_call_leaves_no_answer_for_the_next(tmp_path: Path) -> None:
    program = (
        "import signal, sys\nfrom tests.launcher import in_workers\n"
        "from tfdist_kit import ClusterError, LocalCluster\n"
        "signal.setitimer(signal.ITIMER_REAL, 1)\n"
        "signal.signal(signal.SIGALRM, signal.default_int_handler)\n"
        "with LocalCluster(1, log_dir=sys.argv[1], preload=()) as cluster:\n"
        "    try: cluster.run(in_workers.hang, 0)\n"
        "    except KeyboardInterrupt: print('interrupted')\n"
        "    try: cluster.run(in_workers.rank)\n"
        "    except ClusterError as error: print(error)\n"
        "    cluster.restart()\n"
        "    print(cluster.run(in_workers.rank))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "logs")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    first, told, last = done.stdout.splitlines()
    assert (first, last) == ("interrupted", "[0]")
    assert "a call of it was interrupted; restart() it" in told


# Several at once; all share one preloaded process, which has imported next to nothing


LIGHT = ("json",)


@pytest.fixture
def _light() -> Iterator[None]:
    yield
    close_pool()


@pytest.mark.usefixtures("_light")
def test_clusters_that_are_started_at_the_same_time(tmp_path: Path) -> None:
    def sums(number: int) -> list[int]:
        with LocalCluster(1, log_dir=tmp_path / str(number), preload=LIGHT) as made:
            return made.run(operator.add, 1, number)

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(sums, range(8))) == [[1 + number] for number in range(8)]


@pytest.mark.usefixtures("_light")
def test_a_worker_that_is_killed_during_a_call(tmp_path: Path) -> None:
    with LocalCluster(2, log_dir=tmp_path / "logs", preload=LIGHT, drain=0.3) as made:
        for _ in range(5):
            killer = threading.Timer(0.1, made.kill, (1,))
            killer.start()
            with pytest.raises(WorkerLostError, match=r"rank 1 .* was killed by SIGKILL"):
                made.run(time.sleep, 30)
            killer.join()
            assert made._spawner.trouble == ""
            made.restart()


@pytest.mark.usefixtures("_light")
def test_what_an_interpreter_reads_at_its_start_is_not_shared(tmp_path: Path) -> None:
    for number, seed in enumerate(("0", "1", "0")):
        env = {"PYTHONHASHSEED": seed, "TZ": "Asia/Tokyo", "LC_ALL": "C"}
        found = []
        for preload in (LIGHT, ()):
            folder = tmp_path / f"{number}{len(preload)}"
            with LocalCluster(1, log_dir=folder, preload=preload, env=env) as made:
                found.append([*made.run(hash, "a"), *made.run(time.strftime, "%Z")])
        assert found[0] == found[1]


def test_two_threads_take_turns_with_one_cluster(cluster: LocalCluster) -> None:
    with ThreadPoolExecutor(4) as threads:
        calls = [threads.submit(cluster.run, in_workers.echo, number) for number in range(20)]
    assert [call.result() for call in calls] == [[number] * 2 for number in range(20)]


def test_a_search_path_that_changes(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "late_module.py").write_text("def three(): return 3\n")
    monkeypatch.syspath_prepend(tmp_path)  # a Path, which Python puts up with
    function = importlib.import_module("late_module").three
    assert cluster.run(function) == [3, 3]
    sys.modules.pop("late_module")


def test_streams_that_a_function_takes_away(cluster: LocalCluster) -> None:
    assert cluster.run(in_workers.lose_stdout) == [None, None]
    assert cluster.run(in_workers.rank) == [0, 1]


# With TensorFlow


@pytest.fixture(scope="module")
def _warm() -> Iterator[None]:
    with LocalCluster(1, env=QUIET):
        pass
    yield
    close_pool()


QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3"}


@pytest.mark.usefixtures("_warm")
def test_collectives_in_several_calls_and_clusters(tmp_path: Path) -> None:
    for folder in ("first", "second"):
        with LocalCluster(2, env=QUIET, log_dir=tmp_path / folder) as made:
            assert made.run(in_workers.imported, "tensorflow") == [False, False]
            assert made.run(in_workers.all_reduce) == [2.0, 2.0]
            assert made.run(in_workers.all_reduce) == [2.0, 2.0]
            made.restart()
            assert made.run(in_workers.all_reduce) == [2.0, 2.0]
        plan = json.loads((tmp_path / folder / "plan.json").read_text())
        assert plan["start"]["preload"] == ["tensorflow"]


@pytest.mark.usefixtures("_warm")
def test_a_variable_that_comes_too_late_for_a_preloaded_worker(tmp_path: Path) -> None:
    with (
        LocalCluster(1, env=QUIET, log_dir=tmp_path / "logs") as made,
        pytest.raises(UsageError, match="sets TF_ENABLE_ONEDNN_OPTS, which tensorflow reads"),
    ):
        made.run(in_workers.set_and_import, "TF_ENABLE_ONEDNN_OPTS")
