"""What surviving a preemption costs: a little of each step, and the time from a notice to the end.

`PreemptionCheckpointHandler.run` is measured on steps of 20 ms, with and without it in turn, in
the same two workers. The end is measured like a death (see `death`): one of two workers notes the
time and sends itself SIGTERM, both save and leave, and the clock stops when the launcher has seen
the end of the last one; by TensorFlow's own handler as it is, and by the kit's.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tfdist_kit.bench.contest import TFDIST_RUN, TOTAL, Contest, run
from tfdist_kit.bench.death import time_to_notice

STEP = 0.02
PAIRS = 300
_PREEMPTED = 42
_PATIENT = ("--drain", "60", "--grace", "60", "--no-fast-exit")
"""The launcher ends nobody, and each process goes through an end of its own."""
_TRAINS = (
    TOTAL
    + """\
import json, os, signal, sys, time
weights = tf.Variable(tf.zeros([1000, 1000]))
checkpoint, folder = tf.train.Checkpoint(weights=weights), os.environ["CHECKPOINTS"]
"""
)
_STOCK = "handler = tf.distribute.experimental.PreemptionCheckpointHandler(\n"
_STOCK += "    strategy.cluster_resolver, checkpoint, folder)\n"
_KIT = "import tfdist_kit\n"
_KIT += "handler = tfdist_kit.preemption_checkpoint_handler(strategy, checkpoint, folder)\n"
_LEAVES = """\
for step in range(10**9):
    handler.run(total)
    if step == 20 and os.environ["TFDIST_RANK"] == "1":
        with open(os.environ["KILLED_AT"], "w") as file:
            file.write(repr(time.time()))
        os.kill(os.getpid(), signal.SIGTERM)
"""
_PAIRS = f"""\
def step():
    ends = time.perf_counter() + {STEP}
    total()
    time.sleep(max(0, ends - time.perf_counter()))
def seconds(act, *args):
    begin = time.perf_counter()
    act(*args)
    return time.perf_counter() - begin
handler.run(step)
pairs = [(seconds(step), seconds(handler.run, step)) for _ in range({PAIRS})]
if os.environ["TFDIST_RANK"] == "0":
    with open(os.environ["PAIRS"], "w") as file:
        json.dump(pairs, file)
"""


def contests(folder: Path) -> Iterator[Contest]:
    """What is measured about the way out."""
    ways: dict[str, Callable[[], float]] = {}
    for name, handler in (("TensorFlow's handler", _STOCK), ("the kit's handler", _KIT)):
        script = folder / f"leaves_{len(ways)}.py"
        script.write_text(_TRAINS + handler + _LEAVES)
        ways[name] = partial(time_to_leave, folder, script)
    yield Contest("from a notice to the last process's end", ways, "TensorFlow's handler")


def time_to_leave(folder: Path, script: Path) -> float:
    """From a notice to the end of the last process, in seconds."""
    checkpoints = folder / f"checkpoints_{len(list(folder.glob('checkpoints_*')))}" / "of_a_job"
    options = (*_PATIENT, "--env", f"CHECKPOINTS={checkpoints}")
    return time_to_notice(folder, script, options, _PREEMPTED)[1]


def overhead(folder: Path) -> list[str]:
    """What `run` adds to a step, as rows of a Markdown table; ratios are of pairs."""
    script, result = folder / "pairs.py", folder / "pairs.json"
    script.write_text(_TRAINS + _KIT + _PAIRS)
    checkpoints = folder / "checkpoints_of_pairs" / "of_a_job"
    environ = ("--env", f"CHECKPOINTS={checkpoints}", "--env", f"PAIRS={result}")
    run(*TFDIST_RUN, "-n", "2", "--log-dir", folder / "pairs", *environ, script)
    pairs = json.loads(result.read_text())
    ratio = statistics.median(within / alone for alone, within in pairs)
    alone, within = (statistics.median(times) for times in zip(*pairs, strict=True))
    name = f"a step of {STEP * 1000:g} ms on 2 workers"
    return [
        f"| {name} | alone | {alone * 1000:.2f} ms | 1.000 |",
        f"| {name} | in handler.run | {within * 1000:.2f} ms | {ratio:.3f} |",
    ]
