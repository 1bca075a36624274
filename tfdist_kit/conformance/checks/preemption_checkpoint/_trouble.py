"""Trainings in a cluster in which something goes wrong, or comes at another time than it should."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

from tfdist_kit.conformance.checks.preemption_checkpoint._programs import finish, train
from tfdist_kit.conformance.checks.preemption_checkpoint._training import (
    LONG,
    NOWHERE,
    Training,
    notice,
    short_heartbeats,
)
from tfdist_kit.conformance.stage import Stage


def error_of(kind: str) -> Exception:
    """What goes wrong in one worker."""
    import tensorflow as tf

    if kind == "ValueError":
        return ValueError("the batch is broken")
    made: Exception = getattr(tf.errors, kind)(None, None, "the batch is broken")
    return made


def failing(stage: Stage, kind: str, rank: int = 1, scope: bool = False) -> None:
    """An error in one worker's step; a process that has failed takes a while to end."""
    import tensorflow as tf

    training = Training(stage, strategy=short_heartbeats(stage))

    @tf.function
    def broken() -> None:
        tf.debugging.Assert(training.step < 0, ["the batch is broken"])

    def step() -> None:
        if (stage.rank, training.at) == (rank, 2):
            if kind == "Assert":
                broken()
            raise error_of(kind)
        training.train_step()

    def on_my_own() -> None:
        for _ in range(4):
            step()
            training.step.assign_add(1)

    try:
        if scope:
            with training.handler.watch_preemption_scope():
                on_my_own()
        else:
            training.go(4, function=step)
    except Exception as error:
        stage.say("caught", type=type(error).__name__, text=str(error))
        stage.say("at", step=training.at, calls=int(training.handler.total_run_calls))
        stage.meet("failed", patience=0.7)
        raise


def end_of_data(stage: Stage) -> None:
    """Two epochs, each of which ends with OutOfRangeError in the step of every worker."""
    import tensorflow as tf

    training = Training(stage)

    def epoch() -> None:
        def step() -> None:
            training.update(training.reduced(float(next(batches))))

        batches = (float(each) for each in range(2))

        def one() -> None:
            try:
                step()
            except StopIteration:
                raise tf.errors.OutOfRangeError(None, None, "End of sequence") from None

        while True:
            training.handler.run(one)
            training.step.assign_add(1)

    for number in range(2):
        try:
            epoch()
        except tf.errors.OutOfRangeError:
            stage.say("epoch", number=number, step=training.at)
            stage.meet(f"epoch{number}")
    training.finished()


def silent(stage: Stage, how: str) -> None:
    """The second worker stands still in a step: frozen, or busy with something else."""
    training = Training(stage, strategy=short_heartbeats(stage))

    def step() -> float:
        if (stage.rank, training.at) == (1, 2):
            stage.say("silent")
            if how == "frozen":
                os.kill(os.getpid(), signal.SIGSTOP)
            time.sleep(60)
        return training.train_step()

    training.go(4, function=step)


def uneven(stage: Stage) -> None:
    """The second worker leaves a step out, and has ended when the first one waits for its last."""
    training = Training(stage)
    for number in range(4):
        if (stage.rank, number) == (1, 1):
            continue
        total = training.handler.run(training.reduced, float(number))
        stage.say("sum", number=number, total=total)
    if stage.rank == 1:
        sys.exit(0)


def out_of_step(stage: Stage) -> None:
    """Steps without a collective, and a second worker that is slower."""
    training = Training(stage, on_read=False)
    try:
        if stage.rank == 1:
            time.sleep(0.2)
        training.go(40, ((1, 3),), function=lambda: training.update(1.0))
        stage.subject.finish_training(training.handler)
    finally:
        stage.say("at", step=training.at)


def stops_calling(stage: Stage) -> None:
    """The chief trains three steps and then does other things; the other worker trains on."""
    training = Training(stage, on_read=False)
    if stage.rank == 0:
        training.go(3, function=lambda: training.update(1.0))
        time.sleep(1.0)  # an evaluation, say
        return
    training.go(2000, ((1, 5),), before=lambda _: time.sleep(0.001), function=lambda: None)


def in_the_first_trace(stage: Stage) -> None:
    """A notice while the train function is traced, by the first call after the constructor."""
    import tensorflow as tf

    training = Training(stage)

    @tf.function
    def step() -> Any:
        if stage.rank == 1:
            notice()
        return training.strategy.run(
            lambda: tf.distribute.get_replica_context().all_reduce("sum", tf.constant(1.0))
        )

    try:
        training.go(LONG, function=step)
    finally:
        finish(training)


def before_the_strategy(stage: Stage) -> None:
    """A notice when the program has just begun."""
    stage.subject.watch_from_the_start()
    if stage.rank == 1:
        notice()
    train(stage)


def before_the_handler(stage: Stage) -> None:
    """A notice between the strategy and the handler."""
    stage.subject.watch_from_the_start()
    training = Training(stage, watched=False)
    if stage.rank == 1:
        notice()
    training.watch()
    training.go(LONG)


def without_a_handler(stage: Stage) -> None:
    """A notice to a worker that has a strategy and no handler."""
    training = Training(stage, watched=False)
    training.train_step()
    notice()
    time.sleep(0.3)
    training.finished()


def after_the_last_step(stage: Stage) -> None:
    """A notice in the evaluation that follows the training."""
    training = Training(stage)
    training.go(3)
    stage.subject.finish_training(training.handler)
    notice()
    time.sleep(0.3)
    stage.say("evaluated")


def second_handler(stage: Stage) -> None:
    """Another handler for the same training in the same process."""
    import threading

    raised: list[str] = []
    threading.excepthook = lambda args: raised.append(args.exc_type.__name__)
    training = Training(stage)
    training.go(2)
    training.watch()
    stage.say("second", calls=int(training.handler.total_run_calls))
    try:
        training.go(LONG, ((1, 4),))
    finally:
        stage.say("threads", raised=raised)


def evaluator(stage: Stage) -> None:
    """The evaluator makes a handler, too, which gets a notice."""
    import json

    import tensorflow as tf

    is_evaluator = json.loads(os.environ["TF_CONFIG"])["task"]["type"] == "evaluator"
    if not is_evaluator:
        return
    os.environ["GCE_METADATA_IP"] = NOWHERE

    class Alone:
        cluster_resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()

    variable = tf.Variable(1.0)
    handler = stage.subject.make_preemption_handler(
        Alone(), tf.train.Checkpoint(variable=variable), str(stage.folder / "ckpt")
    )
    stage.say("made")
    notice()
    for _ in range(LONG):
        handler.run(lambda: variable.assign_add(1.0))
        time.sleep(0.001)
