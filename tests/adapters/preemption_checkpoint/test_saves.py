"""What is on the disk after a save that failed on one worker, or was cut short by a kill."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

from tests.adapters.cluster import run_workers
from tests.adapters.preemption_checkpoint.training import Training, told_by


def blocked(training: Training, folder: Path) -> dict[str, Any]:
    """One worker cannot write its own part of the second save."""
    import tensorflow as tf

    handler = training.handler(folder, per_worker=tf.train.Checkpoint(own=tf.Variable(0)))
    handler.run(training.one_step)
    handler.save()
    before = tf.train.latest_checkpoint(folder)
    handler.run(training.one_step)
    own = folder / "per_worker" / f"worker_{training.rank}"
    if training.rank == 1:
        shutil.rmtree(own)
        own.touch()
    told = told_by(lambda _: handler.save())
    published = tf.train.latest_checkpoint(folder)
    handler.close()
    return {"error": told.error, "is published": published != before}


def cut_short(training: Training, folder: Path, shared: int) -> dict[str, Any]:
    """A handler was killed after it had published a checkpoint, before it removed the others."""
    import tensorflow as tf

    own = tf.train.Checkpoint(own=tf.Variable(0))
    handler = training.handler(folder, per_worker=own)
    aside, kept = folder.parent / "aside", []
    for _ in range(shared):
        handler.run(training.one_step)
        handler.save()
        if training.rank == 0:
            kept.append(tf.train.latest_checkpoint(folder))
            aside.mkdir(exist_ok=True)
            for path in folder.glob("ckpt-*"):
                shutil.copy(path, aside)
    runs = handler.total_run_calls
    handler.close()
    if training.rank == 0:
        for path in aside.glob("ckpt-*"):
            path.replace(folder / path.name)
        times = [time.time()] * shared
        tf.compat.v1.train.update_checkpoint_state(
            str(folder), kept[-1], kept, None, times, last_preserved_timestamp=times[0] - 60
        )
    left = folder / "per_worker" / f"worker_{training.rank}" / "at-9_temp"
    left.mkdir()
    (left / "part").touch()

    def go_on(told: Any) -> None:
        again = training.handler(folder, per_worker=own)
        told.facts["lost"] = runs - again.total_run_calls
        again.finish_training()
        again.close()

    told = told_by(go_on)
    return {"error": told.error, **told.facts, "left": left.exists()}


def saves(folder: str) -> list[dict[str, Any]]:
    training, base = Training(), Path(folder)
    return [
        blocked(training, base / "blocked" / "of_a_job"),
        cut_short(training, base / "two" / "of_a_job", 2),
        cut_short(training, base / "three" / "of_a_job", 3),
    ]


def test_saves_that_went_wrong_leave_what_can_be_gone_on_from(tmp_path: Path) -> None:
    found = run_workers(f"{__name__}:saves", folder=str(tmp_path), timeout=60)
    for rank, (one, two, three) in enumerate(found):
        assert "CheckpointError" in one["error"], rank
        assert "worker:1 could not save" in one["error"]
        assert one["is published"] is False
        assert two == {"error": "", "lost": 0, "left": False}
        assert "holds 3 checkpoints" in three["error"]  # no save leaves as many
    for folder in (tmp_path / "two" / "of_a_job").rglob("*"):
        assert not folder.name.endswith("_temp")
    assert len(list((tmp_path / "two" / "of_a_job").glob("*.index"))) == 1
