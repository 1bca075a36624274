"""What recording costs a step, and verifying a program, against doing without.

The step is measured with and without the recorder in turn, in one process: two models that are the
same, of some 50 ms a step on two cores, inputs, loss, gradients and weights all recorded. A verify
of two runs is held against the two runs alone.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tfdist_kit.bench.contest import TFDIST_RUN, Contest, run

PAIRS = 200
_MODEL = """\
import keras, numpy as np, tensorflow as tf
keras.utils.set_random_seed(1)
tf.config.experimental.enable_op_determinism()
random = np.random.RandomState(0)
def trained(width, batch):
    x = random.rand(batch, width).astype("float32")
    y = random.randint(0, 10, batch)
    model = keras.Sequential([keras.layers.Input([width])])
    for _ in range(3):
        model.add(keras.layers.Dense(width, activation="relu"))
    model.add(keras.layers.Dense(10))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, jit_compile=False)
    data = tf.data.Dataset.from_tensors((x, y)).repeat()
    return model, data
"""
_PAIRS = f"""\
import json, sys, time
from tfdist_kit.adapters.op_determinism.recorder import recording
def step_of(model, data):
    model.fit(data, steps_per_epoch=1, verbose=0)
    iterator = iter(data)
    return lambda: model.train_function(iterator)
def seconds(act):
    begin = time.perf_counter()
    float(next(iter(act().values())))
    return time.perf_counter() - begin
alone = step_of(*trained(1024, 448))
with recording(sys.argv[1]):
    recorded = step_of(*trained(1024, 448))
    for _ in range(5):
        alone(), recorded()
    pairs = []
    for number in range({PAIRS}):
        both = [alone, recorded][:: 1 if number % 2 else -1]
        times = [seconds(act) for act in both]
        pairs.append(times[:: 1 if number % 2 else -1])
with open(sys.argv[2], "w") as file:
    json.dump(pairs, file)
"""
_SMALL = "model, data = trained(64, 32)\nmodel.fit(data, steps_per_epoch=20, verbose=0)\n"


def overhead(folder: Path) -> list[str]:
    """What the recorder adds to a step, as rows of a Markdown table; ratios are of pairs."""
    script, result = folder / "recorded.py", folder / "recorded.json"
    script.write_text(_MODEL + _PAIRS)
    run(sys.executable, script, folder / "trace", result)
    pairs = json.loads(result.read_text())
    ratio = statistics.median(recorded / alone for alone, recorded in pairs)
    alone, recorded = (statistics.median(times) for times in zip(*pairs, strict=True))
    name = "a step of 3.2 million weights"
    return [
        f"| {name} | alone | {alone * 1000:.2f} ms | 1.000 |",
        f"| {name} | recorded | {recorded * 1000:.2f} ms | {ratio:.3f} |",
    ]


def contests(folder: Path) -> Iterator[Contest]:
    """What is measured about verifying."""
    script = folder / "small.py"
    script.write_text(_MODEL + _SMALL)
    yield Contest(
        "two runs of a small model",
        {
            "tfdist run, twice": partial(_twice, script),
            "tfdist determinism verify --runs 2": partial(_verify, script, folder / "verified"),
        },
        "tfdist run, twice",
    )


def _twice(script: Path) -> None:
    for _ in range(2):
        run(*TFDIST_RUN, "-n", "1", script)


def _verify(script: Path, traces: Path) -> None:
    shutil.rmtree(traces, ignore_errors=True)
    command = (*TFDIST_RUN[:-1], "determinism", "verify", "--runs", "2", "--traces", traces)
    run(*command, "--", script)
