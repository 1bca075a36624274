"""A real cluster that loses a worker goes on from its checkpoint, as if nothing had happened."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.commands import script, tfdist

STEPS, KILLED_AT = 8, 6
TRAIN = f"""\
import os, pathlib, signal, sys, tempfile

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

while step.numpy() < {STEPS}:
    seeds = tf.stack([step, rank])
    train_step(tf.random.stateless_normal([3], seeds))
    manager.save()
    if "--killed" in sys.argv and os.environ["TFDIST_ATTEMPT"] == "0" and rank == 1:
        if step.numpy() == {KILLED_AT}: os.kill(os.getpid(), signal.SIGKILL)
print("weights", weights.numpy().tobytes().hex())
"""


def weights(out: str) -> list[str]:
    return re.findall(r"weights (\w+)", out)


def test_a_lost_worker_changes_nothing_of_the_result(tmp_path: Path) -> None:
    name = script(tmp_path, TRAIN)
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3"}
    args = ["--timeout", "100", "--max-restarts", "1", "--restart-delay", "0", "--log-dir"]
    plain = tfdist("run", *args, "plain", name, folder=tmp_path, env=quiet)
    killed = tfdist("run", *args, "killed", name, "--killed", folder=tmp_path, env=quiet)
    assert (plain.code, killed.code) == (0, 0), killed.err
    assert len(set(weights(plain.out))) == 1
    assert len(weights(plain.out)) == 2
    assert weights(killed.out) == weights(plain.out)
    assert sorted(re.findall(r"begins at step (\d+)", killed.out)) == ["0", "0", "5", "5"]
    events = (tmp_path / "killed" / "events.jsonl").read_text().splitlines()
    told = [event for event in map(json.loads, events) if event["event"] == "verdict"]
    assert [event["verdict"] for event in told] == ["lost worker", "done"]
