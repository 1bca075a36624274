"""A real cluster that loses a worker goes on from its checkpoint, as if nothing had happened."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.commands import script, tfdist

STEPS, KILLED_AT = 8, 6
TRAIN = f"""\
import os, pathlib, signal, tempfile

import tensorflow as tf
import tfdist_kit

strategy = tfdist_kit.multi_worker_mirrored()
rank = int(os.environ["TFDIST_RANK"])
with strategy.scope():
    weights = tf.Variable(tf.zeros(3))
    step = tf.Variable(0, dtype=tf.int64)
checkpoint = tf.train.Checkpoint(weights=weights, step=step)
kept = pathlib.Path(os.environ["TFDIST_RUN_DIR"], "checkpoints")
checkpoint.restore(tf.train.latest_checkpoint(kept))
print("begins at step", step.numpy())
own = kept if strategy.extended.should_checkpoint else tempfile.mkdtemp()
manager = tf.train.CheckpointManager(checkpoint, own, 3, step_counter=step, checkpoint_interval=2)

@tf.function
def train_step(example):
    gradients = strategy.run(lambda: tf.sin(weights * example) - example)
    weights.assign_sub(0.1 * strategy.reduce("MEAN", gradients, axis=None))
    step.assign_add(1)

def train(after_each_step):
    while step.numpy() < {STEPS}:
        seeds = tf.stack([step, rank])
        train_step(tf.random.stateless_normal([3], seeds))
        after_each_step()
    return weights.numpy().tobytes().hex()

def save_or_die():
    manager.save()
    if os.environ["TFDIST_ATTEMPT"] == "0" and rank == 1 and step.numpy() == {KILLED_AT}:
        os.kill(os.getpid(), signal.SIGKILL)

print("continued", train(save_or_die))
weights.assign(tf.zeros(3))
step.assign(0)
print("undisturbed", train(lambda: None))
"""


def test_a_lost_worker_changes_nothing_of_the_result(tmp_path: Path) -> None:
    args = ["--timeout", "100", "--max-restarts", "1", "--restart-delay", "0", "--log-dir", "logs"]
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3"}
    result = tfdist("run", *args, script(tmp_path, TRAIN), folder=tmp_path, env=quiet)
    assert result.code == 0, result.err
    found = [re.findall(rf"{way} (\w+)", result.out) for way in ("continued", "undisturbed")]
    assert [len(weights) for weights in found] == [2, 2]
    assert len({*found[0], *found[1]}) == 1
    assert sorted(re.findall(r"begins at step (\d+)", result.out)) == ["0", "0", "5", "5"]
    events = (tmp_path / "logs" / "events.jsonl").read_text().splitlines()
    told = [event for event in map(json.loads, events) if event["event"] == "verdict"]
    assert [event["verdict"] for event in told] == ["lost worker", "done"]
