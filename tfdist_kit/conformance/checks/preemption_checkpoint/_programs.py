"""Trainings in a cluster that a notice comes upon: see `Training`."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

from tfdist_kit.conformance.checks.preemption_checkpoint._training import (
    LONG,
    SHORT,
    Training,
    notice,
    short_heartbeats,
)
from tfdist_kit.conformance.stage import Stage, end_as_an_interpreter
from tfdist_kit.conformance.subjects import STOCK

Notices = tuple[tuple[int, int], ...]


def finish(training: Training) -> None:
    """Say how the training stands, and what its chief has saved."""
    stage = training.stage
    calls = getattr(training.handler, "total_run_calls", None)
    stage.say("at", step=training.at, weight=float(training.weight.numpy()), calls=calls)
    if stage.rank == 0:
        training.saved()


def train(
    stage: Stage,
    steps: int | None = None,
    notices: Notices = (),
    inside: bool = True,
    directory: str = "job/ckpt",
    keep: int = 0,
) -> None:
    """A training.

    With TensorFlow's handler every worker writes by the manager that it was given, so that each has
    to have a folder of its own. With the kit's, all are alike, and only the chief's is written by.
    """
    own = f"{directory}_{stage.rank}" if keep and stage.subject.kind == STOCK else directory
    training = Training(stage, directory=own, inside=inside, keep=keep)
    try:
        training.go(steps, notices)
    finally:
        finish(training)


def by_hand(stage: Stage, rank: int = 0) -> None:
    """What the user saves goes into checkpoint_dir; then a worker is killed, without notice."""
    training = Training(stage, strategy=short_heartbeats(stage), on_read=False)

    def save_and_kill(step: int) -> None:
        if step and step % 2 == 0:
            path = training.directory if stage.rank == 0 else str(stage.folder / "thrown-away")
            training.checkpoint.save(f"{path}/mine")
        if (stage.rank, step) == (rank, 5):
            os.kill(os.getpid(), signal.SIGKILL)

    training.go(8, before=save_and_kill)


def left_by(
    stage: Stage, code: str, notices: Notices = ((1, 2),), steps: int | None = None
) -> None:
    """An exit_fn of the user's."""

    def leave() -> None:
        stage.say("exit_fn")
        if stage.rank == 0:
            training.saved()
        if code == "nothing":
            return
        if code == "raise":
            raise RuntimeError("the exit_fn is broken")
        sys.exit(int(code) if code.isdigit() else code)

    training = Training(stage, exit_fn=leave)
    training.go(steps, notices)
    finish(training)


class _LastWord:
    """Sends a notice when it is let go."""

    _kill, _pid, _signal = os.kill, os.getpid, signal.SIGTERM

    def __del__(self) -> None:
        type(self)._kill(type(self)._pid(), self._signal)


def ended_by_python(stage: Stage, again: bool) -> None:
    """The interpreter's own teardown after the handler's exit, with another notice in it."""
    training = Training(stage)
    try:
        training.go(notices=((1, 2),))
    except SystemExit as error:
        stage.say("left", code=str(error.code))
        if again:
            setattr(sys, "kept_to_the_end", _LastWord())  # noqa: B010  # let go with the modules
        end_as_an_interpreter(int(str(error.code)))


def saved_by(
    stage: Stage,
    notices: Notices = ((1, 2),),
    slow: tuple[tuple[int, float], ...] = (),
    again: bool = False,
    error: str = "",
    grace: float | None = None,
    steps: int | None = None,
    pause: float = 0.0,
) -> None:
    """A save_fn of the user's: each worker saves into a folder of its own.

    Args:
        stage: Where it plays.
        notices: Before which steps which ranks get a notice.
        slow: How many seconds which ranks take to save.
        again: Whether there is another notice during the save.
        error: What goes wrong in the save, if something does.
        grace: The grace_period.
        steps: How many steps there are.
        pause: Seconds before each step.
    """
    import tensorflow as tf

    def save(*args: Any, **kwargs: Any) -> None:
        stage.say("saving", args=list(args), kwargs=kwargs)
        if again:
            notice()
        time.sleep(dict(slow).get(stage.rank, 0.0))
        if error == "disk":
            raise tf.errors.ResourceExhaustedError(None, None, "the disk is full")
        if error == "python":
            raise OSError("the disk is full")
        training.checkpoint.save(str(stage.folder / f"by_{stage.rank}" / "x"))
        stage.say("saved", step=training.at)

    given: dict[str, Any] = {} if grace is None else {"grace_period": grace}
    training = Training(stage, on_read=False, save_fn=save, **given)
    training.go(steps, notices, before=lambda _: time.sleep(pause))


def graced(
    stage: Stage, grace: float | None, steps: int = 4000, pause: float = 0.005, late: bool = False
) -> None:
    """A grace_period, with a training that is long enough, or not.

    Args:
        stage: Where it plays.
        grace: The grace_period, in seconds.
        steps: How many steps there are.
        pause: Seconds before each step.
        late: Whether the chief is slow between hearing of the last save and noting it.
    """
    if late and stage.rank == 0:
        slow_to_note_the_last_save()
    training = Training(stage, grace_period=grace)
    try:
        training.go(steps, ((1, 2),), before=lambda _: time.sleep(pause))
    finally:
        finish(training)


def slow_to_note_the_last_save() -> None:
    """Stand still for a moment where another thread may run."""
    from tensorflow.python.distribute.failure_handling import failure_handling

    info = failure_handling.logging.info

    def slowly(text: str, *args: Any) -> None:
        if "final checkpoint timing received" in text:
            time.sleep(0.5)
        info(text, *args)

    failure_handling.logging.info = slowly


def own_loop(
    stage: Stage, number: int = 0, notices: Notices = ((1, 2),), used: bool = False
) -> None:
    """A loop of the user's own, with save_checkpoint_if_preempted after each step.

    Args:
        stage: Where it plays.
        number: What the checkpoint is to be called, if above 0.
        notices: Before which steps which ranks get a notice.
        used: Whether save_fn is given, and says what it was called with.
    """

    def save(*args: Any, **kwargs: Any) -> None:
        stage.say("saving", args=list(args), kwargs=kwargs)

    saves: dict[str, Any] = {"save_fn": save} if used else {}
    training = Training(stage, **saves)
    given = {"checkpoint_number": number} if number else {}
    steps = LONG if notices else training.at + SHORT
    try:
        while training.at < steps:
            if (stage.rank, training.at) in notices:
                notice()
            training.train_step()
            training.step.assign_add(1)
            training.handler.save_checkpoint_if_preempted(**given)
        training.finished()
    finally:
        finish(training)


def in_watch_scope(stage: Stage) -> None:
    """The scope, which this strategy does not need."""
    training = Training(stage)
    try:
        with training.handler.watch_preemption_scope():
            training.go(notices=((1, 2),))
    finally:
        finish(training)


def many_steps_in_a_call(stage: Stage) -> None:
    """A function of several steps, in the midst of which a notice comes."""
    training = Training(stage)

    def several() -> None:
        for number in range(5):
            if (stage.rank, training.at, number) == (1, 7, 2):
                stage.say("notice")
                notice()
            training.train_step()
            training.step.assign_add(1)
        stage.say("call")

    try:
        for _ in range(12):
            training.handler.run(several)
    finally:
        finish(training)


def blocked_watcher(stage: Stage) -> None:
    """A notice at the first worker, whose peer has a watcher that takes its time."""

    def watch() -> bool:
        if stage.rank == 0:
            return True
        time.sleep(1.0)
        return False

    training = Training(stage, termination_watcher_fn=watch)
    training.go(4000, before=lambda _: time.sleep(0.005))


def graced_and_left(stage: Stage, grace: float) -> None:
    """A grace_period and an exit_fn."""
    training = Training(stage, grace_period=grace, exit_fn=lambda: sys.exit(9))
    try:
        training.go(4000, ((1, 2),), before=lambda _: time.sleep(0.005))
    finally:
        finish(training)
