"""What shows in one process without a cluster."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from tfdist_kit.conformance.checks.preemption_checkpoint._training import (
    LONG,
    Training,
    alone,
    notice,
)
from tfdist_kit.conformance.stage import Stage


def single(stage: Stage, **options: Any) -> Training:
    """A training in this process alone."""
    alone()
    return Training(stage, **options)


def made_with(
    stage: Stage, directory: str | None = "ckpt", keep: int = 0, file: bool = False
) -> None:
    """Makes a handler from a Checkpoint or a manager.

    Args:
        stage: Where it plays.
        directory: What is given as checkpoint_dir, below the stage's folder; None is None.
        keep: If above 0, a manager is given instead, which keeps so many.
        file: Whether a file is where that directory's parent should be.
    """
    import tensorflow as tf

    training = single(stage, watched=False, keep=keep)
    if file:
        (stage.folder / "in-the-way").write_text("")
        directory = "in-the-way/ckpt"
    where = str(stage.folder / directory) if directory else directory
    what = training.manager or training.checkpoint
    given = (what, where) if not keep else (what,)
    assert isinstance(training.checkpoint, tf.train.Checkpoint)
    handler = stage.subject.make_preemption_handler(training.strategy, *given)
    stage.say("made")
    notice()
    for _ in range(LONG):
        handler.run(training.train_step)
        time.sleep(0.001)


def calls(stage: Stage) -> None:
    """Calls of run, and what becomes of them."""
    training = single(stage)
    handler, counted = training.handler, []

    def returns(*args: Any, **kwargs: Any) -> Any:
        counted.append((list(args), kwargs))
        return "result"

    result = handler.run(returns, 1, [2], three=3)
    nothing = handler.run(lambda: None)
    stage.say("called", with_=counted, result=result, nothing=nothing)
    stage.say("count", calls=int(handler.total_run_calls))


def failed_call(stage: Stage) -> None:
    """A call that fails, and one that does not."""
    import tensorflow as tf

    handler = single(stage).handler

    def fail() -> None:
        raise tf.errors.InvalidArgumentError(None, None, "broken")

    handler.run(lambda: None)
    try:
        handler.run(fail)
    except tf.errors.InvalidArgumentError:
        stage.say("count", calls=int(handler.total_run_calls))


def single_process() -> None:
    """No strategy: the training makes its own."""


def one_step(stage: Stage, at: int = 2, strategy: str = "") -> None:
    """A training without a cluster, of another strategy if one is named."""
    import tensorflow as tf

    alone()
    made: Any = {
        "": single_process,
        "mirrored": tf.distribute.MirroredStrategy,
        "one-device": lambda: tf.distribute.OneDeviceStrategy("CPU:0"),
        "default": tf.distribute.get_strategy,
    }[strategy]
    training = Training(stage, strategy=made())
    try:
        training.go(notices=((0, at),))
    finally:
        training.saved()


def parameter_server(stage: Stage) -> None:
    """A cluster that has a parameter server."""
    import tensorflow as tf

    alone()
    cluster = tf.train.ClusterSpec({"worker": ["localhost:1"], "ps": ["localhost:2"]})

    strategy = tf.distribute.OneDeviceStrategy("cpu:0")
    strategy.extended._cluster_resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        cluster, task_type="worker", task_id=0
    )
    try:
        stage.subject.make_preemption_handler(
            strategy, tf.train.Checkpoint(), str(stage.folder / "ckpt")
        )
    except NotImplementedError as error:
        stage.say("refused", text=str(error))


def restored(stage: Stage, how: str) -> None:
    """What a handler makes of what is in checkpoint_dir already.

    Args:
        stage: Where it plays.
        how: Which checkpoints are there.
    """
    import tensorflow as tf

    training = single(stage, watched=False)
    checkpoint, folder = training.checkpoint, training.directory
    if how == "other objects":
        checkpoint = tf.train.Checkpoint(another=tf.Variable(3.0))
    for number in range(1, 4):
        training.weight.assign(float(number))
        training.step.assign(number)
        if how == "written":
            checkpoint.write(f"{folder}/mine")
        elif how != "nothing":
            checkpoint.save(f"{folder}/mine")
    training.weight.assign(0.0)
    training.step.assign(0)
    training.watch()


def keeps_what_there_was(stage: Stage, keep: int) -> None:
    """The user's own checkpoints, in checkpoint_dir or those of the manager that is given."""
    import tensorflow as tf

    training = single(stage, watched=False, keep=keep)
    mine = training.manager or tf.train.CheckpointManager(
        training.checkpoint, training.directory, max_to_keep=5
    )
    for number in range(3):
        training.step.assign(number)
        mine.save()
    training.watch()
    training.go(notices=((0, 4),))


def second_handler(stage: Stage) -> None:
    """A second handler of the same Checkpoint."""
    training = single(stage)
    training.go(3)
    training.watch()
    stage.say("count", calls=int(training.handler.total_run_calls))


def in_a_thread(stage: Stage, watcher: bool) -> None:
    """The constructor in another thread than the main one."""
    given = {"termination_watcher_fn": lambda: False} if watcher else {}
    training = single(stage, watched=False, **given)
    thread = threading.Thread(target=_noting(stage, training.watch))
    thread.start()
    thread.join()


def _noting(stage: Stage, function: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        try:
            function()
        except Exception as error:
            stage.say("refused", type=type(error).__name__, text=str(error))
        else:
            stage.say("made")

    return run


def handler_before(stage: Stage) -> None:
    """A signal handler of the user's, from before."""
    signal.signal(signal.SIGTERM, lambda *_: stage.say("mine"))
    training = single(stage)
    training.go(notices=((0, 1),))


def watched_by(stage: Stage, calls: int = 2, first: str = "", sigterm: bool = False) -> None:
    """A termination_watcher_fn of the user's.

    Args:
        stage: Where it plays.
        calls: At which call it says that there is a notice; 0 for never.
        first: What its first call does: "raise", or "block" for longer than training lasts.
        sigterm: Whether there is a SIGTERM beside it.
    """
    asked: list[float] = []

    def watch() -> bool:
        asked.append(time.monotonic())
        stage.say("asked", number=len(asked))
        if first == "raise" and len(asked) == 1:
            raise OSError("nobody answers")
        if first == "block":
            time.sleep(1.0)
        return len(asked) == calls

    training = single(stage, termination_watcher_fn=watch)
    ends = time.monotonic() + (0.5 if sigterm else 1.6)
    if sigterm:
        notice()
    while time.monotonic() < ends:
        training.handler.run(training.train_step)
        training.step.assign_add(1)
        time.sleep(0.01)
    stage.say("finished")


def iterated(stage: Stage, fetched: str) -> None:
    """A data set's iterator in the checkpoint, read for run or within it.

    Args:
        stage: Where it plays.
        fetched: "outside" for a batch that is an argument of run, "inside" else.
    """
    import tensorflow as tf

    batches = iter(tf.data.Dataset.range(LONG))
    training = single(stage, more={"batches": batches})

    def step(batch: Any = None) -> None:
        batch = next(batches) if batch is None else batch
        stage.say("batch", number=int(batch))

    first = training.at
    for number in range(first, LONG):
        if number == 3 and not first:
            notice()
        try:
            given = (next(batches),) if fetched == "outside" else ()
        except StopIteration:
            return
        training.handler.run(step, *given)
        training.step.assign_add(1)


def distributed_iterator(stage: Stage) -> None:
    """A distributed data set's iterator as a part of a Checkpoint."""
    import tensorflow as tf

    strategy = stage.subject.make_strategy()
    dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.range(8).batch(2))
    tf.train.Checkpoint(batches=iter(dataset))
    stage.say("made")


def batch_of(stage: Stage) -> None:
    """A batch for the train function, as the page's first example gives it."""
    training = single(stage)

    def train_function(batch: float) -> None:
        stage.say("trained", batch=batch)

    training.handler.run(train_function, args=(1.0,))


FIRST = """
while trained_epoch.numpy() < NUM_EPOCH:

  while step_in_epoch.numpy() < STEPS_PER_EPOCH:

    loss += preemption_checkpoint_handler.run(distributed_train_function)
    step_in_epoch.assign_add(STEPS_PER_TRAIN_FUNCTION)

  epoch.assign_add(1)
  step_in_epoch.assign(0)
"""
SECOND = """
for epoch in range(preemption_handler.total_run_calls // STEPS_PER_EPOCH,
                   EPOCHS_TO_RUN):
  iterator = iter(multi_worker_dataset)
  total_loss = 0.0
  num_batches = 0

  for step in range(preemption_handler.total_run_calls % STEPS_PER_EPOCH,
                    STEPS_PER_EPOCH):
    total_loss += preemption_handler.run(distributed_train_step, iterator)
    num_batches += 1

  train_loss = total_loss / num_batches
  print('Epoch: %d, train_loss: %f.' % (@EPOCH, train_loss))

  @RESET
"""


def first_example(stage: Stage) -> None:
    """The loop of the page's first example, but for the batch, and with what it leaves open."""
    import tensorflow as tf

    training = single(stage)
    names = {
        "trained_epoch": tf.Variable(0, dtype=tf.int64),
        "step_in_epoch": tf.Variable(0, dtype=tf.int64),
        "preemption_checkpoint_handler": training.handler,
        "distributed_train_function": training.train_step,
        "loss": 0.0,
        "NUM_EPOCH": 2,
        "STEPS_PER_EPOCH": 2,
        "STEPS_PER_TRAIN_FUNCTION": 1,
    }
    exec(FIRST, names)  # the page's own lines are what is checked


def second_example(stage: Stage, literally: bool, notices: bool = False) -> None:
    """The loop of the page's second example.

    Args:
        stage: Where it plays.
        literally: Whether also its lines are run that name what is not there.
        notices: Whether there is a notice in the midst of the first epoch.
    """
    import keras
    import tensorflow as tf

    training = single(stage)

    def step(iterator: Any) -> float:
        batch = int(next(iterator))
        stage.say("batch", number=batch)
        if notices and batch == 1:
            notice()
        return float(batch)

    names = {
        "preemption_handler": training.handler,
        "multi_worker_dataset": tf.data.Dataset.range(LONG),
        "distributed_train_step": step,
        "train_accuracy": keras.metrics.Mean(),
        "STEPS_PER_EPOCH": LONG,
        "EPOCHS_TO_RUN": 1,
    }
    epoch = "epoch.numpy()" if literally else "epoch"
    reset = "train_accuracy.reset_states()" if literally else "pass"
    exec(SECOND.replace("@EPOCH", epoch).replace("@RESET", reset), names)


def trained_by_keras(stage: Stage, version: int, again: bool = False) -> None:
    """A Keras model and its optimizer in the checkpoint.

    Args:
        stage: Where it plays.
        version: Of Keras.
        again: Whether the training goes on, to be held against one that was never cut off.
    """
    alone()
    strategy = stage.subject.make_strategy()
    model, optimizer, step = _keras_training(strategy, version)
    more = {"model": model, "optimizer": optimizer}
    training = Training(stage, strategy=strategy, more=more)
    training.go(None, () if again else ((0, 3),), function=lambda: step(training.at))
    whole, other, other_step = _keras_training(strategy, version)
    for number in range(training.at):
        other_step(number)
    for name, one, its in (("resumed", model, optimizer), ("whole", whole, other)):
        weights = [float(each) for each in one.get_weights()[0].ravel()]
        stage.say(name, weights=weights, steps=int(its.iterations.numpy()))


def _keras_training(strategy: Any, version: int) -> tuple[Any, Any, Callable[[int], None]]:
    """A model, an optimizer, and a step for them."""
    import numpy as np
    import tensorflow as tf

    keras: Any = __import__("keras" if version == 3 else "tf_keras")
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        optimizer = keras.optimizers.Adam(0.1)

    def step(number: int) -> None:
        inputs = np.full((4, 2), float(number + 1), "float32")
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(inputs) - 1.0))
        variables = model.trainable_variables
        gradients = tape.gradient(loss, variables)
        strategy.run(lambda: optimizer.apply_gradients(zip(gradients, variables, strict=True)))

    return model, optimizer, step
