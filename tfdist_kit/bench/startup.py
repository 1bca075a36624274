"""What a launch costs: ``python -m tfdist_kit.bench.startup``.

Each row is a pair of commands run in turn, A B A B ..., with medians and the median of the ratios
A/B. The plain launcher that ``tfdist run`` is held against starts the same workers with
``subprocess`` and waits for them; it supervises nothing.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from absl import app, flags

from tfdist_kit.launcher.ports import HeldPorts
from tfdist_kit.tf_config import ClusterSpec, TFConfig

_ROUNDS = flags.DEFINE_integer("rounds", 5, "Counted runs of each command.", lower_bound=1)
_WORKERS = flags.DEFINE_list("workers", ["1", "2", "4"], "Sizes of the clusters.")

ALL_REDUCE = """\
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
@tf.function
def total():
    one = lambda: tf.distribute.get_replica_context().all_reduce("sum", tf.identity(1.0))
    return strategy.run(one)
assert float(total()) == strategy.num_replicas_in_sync
"""
DIES = """\
import os, time
if os.environ["TFDIST_RANK"] == "1":
    os.kill(os.getpid(), 9)
time.sleep(60)
"""


@dataclass(frozen=True)
class Pair:
    """Two actions that are measured in turn."""

    name: str
    first: Callable[[], None]
    second: Callable[[], None]


def seconds(action: Callable[[], None]) -> float:
    """How long `action` takes."""
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def run(*command: str | Path) -> None:
    """Run a command that must succeed."""
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def tfdist_run(script: Path, workers: int) -> None:
    """Launch `script` with ``tfdist run``."""
    run(sys.executable, "-m", "tfdist_kit.cli", "run", "-n", str(workers), script)


def plain_launch(script: Path, workers: int) -> None:
    """Launch `script` with one plain subprocess per worker."""
    with HeldPorts(workers) as held:
        config = TFConfig(ClusterSpec.local(workers=workers, ports=held.numbers))
        processes = [
            subprocess.Popen(
                [sys.executable, script],
                env={**os.environ, "TF_CONFIG": config.for_task("worker", index).to_json()},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for index in range(workers)
        ]
        codes = [process.wait() for process in processes]
    if any(codes):
        raise RuntimeError(f"the plain launch failed with {codes}")


def death_of_a_worker(script: Path) -> None:
    """Launch two workers of which one kills itself at once; the other would sleep."""
    command = [sys.executable, "-m", "tfdist_kit.cli", "run", "-n", "2", str(script)]
    code = subprocess.run(command, capture_output=True, check=False).returncode
    if code != 137:
        raise RuntimeError(f"tfdist run left with {code}, not with 137")


def pairs(folder: Path) -> list[Pair]:
    """Everything that is measured."""
    reduce, empty, dies = folder / "reduce.py", folder / "empty.py", folder / "dies.py"
    reduce.write_text(ALL_REDUCE)
    empty.write_text("")
    dies.write_text(DIES)
    return [
        *(
            Pair(
                f"{count} worker(s), to the end of an all-reduce: tfdist run / plain subprocesses",
                partial(tfdist_run, reduce, count),
                partial(plain_launch, reduce, count),
            )
            for count in map(int, _WORKERS.value)
        ),
        Pair(
            "an empty script on 2 workers: tfdist run / plain subprocesses",
            partial(tfdist_run, empty, 2),
            partial(plain_launch, empty, 2),
        ),
        Pair(
            "a worker killed at its start, the group ended / an empty script, both on 2 workers",
            partial(death_of_a_worker, dies),
            partial(tfdist_run, empty, 2),
        ),
        Pair(
            "python -c 'import tfdist_kit' / python -c pass",
            partial(run, sys.executable, "-c", "import tfdist_kit"),
            partial(run, sys.executable, "-c", "pass"),
        ),
    ]


def measure(pair: Pair, rounds: int) -> str:
    """Run a pair in turn, once unmeasured, and give its row of the table."""
    pair.first()
    pair.second()
    times = [(seconds(pair.first), seconds(pair.second)) for _ in range(rounds)]
    first, second = (statistics.median(column) for column in zip(*times, strict=True))
    ratio = statistics.median(a / b for a, b in times)
    return f"| {pair.name} | {first:.3f} s | {second:.3f} s | {ratio:.2f} |"


def main(_: Sequence[str]) -> None:
    """Print the table."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    with tempfile.TemporaryDirectory(prefix="tfdist-bench-") as folder:
        os.environ["TMPDIR"] = folder
        print(f"| A / B, median of {_ROUNDS.value} pairs | A | B | A/B |\n|---|---|---|---|")
        for pair in pairs(Path(folder)):
            print(measure(pair, _ROUNDS.value), flush=True)


if __name__ == "__main__":
    app.run(main)
