"""How long a cluster takes to start, do one all-reduce, and leave.

Against the same script in one plain ``subprocess`` per worker, which supervises nothing, and, where
torch is installed, against ``torchrun`` with gloo and a script of its own that does the same.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tfdist_kit.bench.contest import TFDIST_RUN, TOTAL, Contest, run
from tfdist_kit.launcher import LocalCluster
from tfdist_kit.launcher.network.ports import HeldPorts
from tfdist_kit.tf_config import ClusterSpec, TFConfig

ALL_REDUCE = f"{TOTAL}assert float(total()) == strategy.num_replicas_in_sync\n"
TORCH_ALL_REDUCE = """\
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
one = torch.ones(())
dist.all_reduce(one)
assert float(one) == dist.get_world_size()
dist.destroy_process_group()
"""


def contests(folder: Path, workers: list[int]) -> Iterator[Contest]:
    """Everything that is measured about starting."""
    reduce, empty = folder / "reduce.py", folder / "empty.py"
    reduce.write_text(ALL_REDUCE)
    empty.write_text("")
    for count in workers:
        yield _all_reduce(reduce, count)
    yield Contest(
        "2 workers against one import",
        {
            "tfdist run, preloaded": partial(tfdist_run, reduce, 2, "--start-method", "preload"),
            "python -c 'import tensorflow'": partial(
                run, sys.executable, "-c", "import tensorflow"
            ),
        },
        "python -c 'import tensorflow'",
    )
    yield Contest(
        "an empty script on 2 workers",
        {
            "tfdist run": partial(tfdist_run, empty, 2),
            "plain subprocesses": partial(plain_launch, empty, 2),
        },
        "plain subprocesses",
    )
    yield Contest(
        "import tfdist_kit",
        {
            "import tfdist_kit": partial(run, sys.executable, "-c", "import tfdist_kit"),
            "pass": partial(run, sys.executable, "-c", "pass"),
        },
        "pass",
    )


def _all_reduce(script: Path, count: int) -> Contest:
    ways: dict[str, Callable[[], float | None]] = {
        "plain subprocesses": partial(plain_launch, script, count),
        "tfdist run, fresh": partial(tfdist_run, script, count, "--start-method", "fresh"),
        "tfdist run, preloaded": partial(tfdist_run, script, count, "--start-method", "preload"),
        "LocalCluster, warm": partial(warm_cluster, script, count),
    }
    if importlib.util.find_spec("torch") is not None:
        ways["torchrun, gloo"] = partial(torchrun, script.parent, count)
    plural = "worker" if count == 1 else "workers"
    return Contest(f"{count} {plural}, one all-reduce", ways, "plain subprocesses")


def tfdist_run(script: Path, workers: int, *options: str) -> None:
    """Launch `script` with ``tfdist run``."""
    run(*TFDIST_RUN, "-n", str(workers), *options, script)


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


def warm_cluster(script: Path, workers: int) -> None:
    """Run the script's text in a `LocalCluster`; all but the first find a preloaded process."""
    with LocalCluster(workers) as cluster:
        cluster.run(run_text, str(script))


def run_text(path: str) -> None:
    """Run a script's text in a worker."""
    source = Path(path).read_text(encoding="utf-8")
    exec(compile(source, path, "exec"), {"__name__": "__main__"})


def torchrun(folder: Path, workers: int) -> None:
    """Launch a script that does the same with torch."""
    script = folder / "torch_reduce.py"
    script.write_text(TORCH_ALL_REDUCE)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    run(*command, "--nproc-per-node", str(workers), script)
