"""What must be true before a handler can work, checked by all workers together.

each worker: what is wrong with what I was given? -> the chief: can I write here?
    -> the others: do I see what the chief wrote? -> all raise the same error, or none
"""

from __future__ import annotations

import json
import os
import threading
import uuid
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfdist_kit._errors import UnsupportedStrategyError, UsageError
from tfdist_kit.adapters.preemption_checkpoint.own_state import COUNTER_KEY
from tfdist_kit.adapters.preemption_checkpoint.team import Team, reason_of

_SEEN_WITHIN = 5.0
"""Seconds in which a network file system shows what another machine wrote."""
CALL = "call preemption_checkpoint_handler()"


def check_types(strategy: Any, checkpoint_dir: Any, per_worker: Any) -> None:
    """Refuse what is of another kind than what was asked for.

    Raises:
        UsageError: There is such a thing.
    """
    if not isinstance(strategy, (tf.distribute.Strategy, tf.compat.v1.distribute.Strategy)):
        raise UsageError(
            f"strategy is {type(strategy).__name__}",
            hint="give the strategy itself; TensorFlow's class takes its cluster_resolver instead",
        )
    if not tf.executing_eagerly():
        raise UsageError(
            "the handler is made in graph mode, where TensorFlow's cannot restore",
            hint="make it eagerly, outside of any tf.function",
        )
    if checkpoint_dir is not None and not isinstance(checkpoint_dir, (str, os.PathLike)):
        raise UsageError(f"checkpoint_dir is {checkpoint_dir!r}", hint="give a path as text")
    if per_worker is not None and not isinstance(per_worker, tf.train.Checkpoint):
        raise UsageError(
            f"per_worker is {type(per_worker).__name__}",
            hint="give a tf.train.Checkpoint of what is each worker's own",
        )


def check_arguments(target: Any, checkpoint_dir: str, *, is_second: bool) -> None:
    """Refuse what cannot work whatever the others do.

    Raises:
        UsageError: There is such a thing.
    """
    if threading.current_thread() is not threading.main_thread():
        raise UsageError(
            "the handler is made in another thread than the main one, where no signal is caught",
            hint="make it in the main thread",
        )
    if is_second:
        raise UsageError(
            "this process has a handler already",
            hint="make one handler for all that is to be saved, or close() the first one",
        )
    if isinstance(target, tf.train.CheckpointManager):
        return
    if not isinstance(target, (tf.train.Checkpoint, tf.compat.v1.train.Checkpoint)):
        raise UsageError(
            f"checkpoint_or_manager is {type(target).__name__}",
            hint="give a tf.train.Checkpoint or a tf.train.CheckpointManager",
        )
    if not checkpoint_dir:
        raise UsageError(
            "a Checkpoint was given without checkpoint_dir",
            hint="give checkpoint_dir, a folder that every worker can reach, or a "
            "tf.train.CheckpointManager, which has one",
        )


def check_task(resolver: Any) -> None:
    """Refuse a task that does not train together with the others.

    Raises:
        UsageError: It is an evaluator.
        UnsupportedStrategyError: The cluster has parameter servers.
    """
    if resolver and "ps" in resolver.cluster_spec().jobs:
        raise UnsupportedStrategyError(
            "the cluster has parameter servers; ParameterServerStrategy has no such handler",
            hint="save with a tf.train.CheckpointManager in the coordinator",
        )
    if resolver is not None and getattr(resolver, "task_type", None) == "evaluator":
        raise UsageError(
            "this task is an evaluator, which takes no part in the training's checkpoints",
            hint="make the handler only in the tasks that train: chief and worker",
        )


def check_folder(team: Team, folder: str, *, keeps_one: bool, seconds: float) -> None:
    """Refuse a folder in which checkpoints would be lost, or would be seen by the chief alone.

    Args:
        team: The workers; all of them call this.
        folder: Where the checkpoints are.
        keeps_one: Whether TensorFlow will delete all but one of them.
        seconds: How long the workers wait for each other.

    Raises:
        UsageError: On every worker alike.
    """
    name = f"probe_{uuid.uuid4().hex}"
    found = ("", "")
    if team.is_chief:
        found = _chiefs_findings(folder, os.path.join(folder, name), keeps_one=keeps_one)
    words = json.dumps([name, *found])
    name, trouble, hint = json.loads(team.exchange("folder", words, seconds, CALL)[0])
    probe = os.path.join(folder, name)
    seen = "yes" if trouble or _appears(probe) else "no"
    answers = team.exchange("seen", seen, seconds, CALL)
    team.let_chief_go_last("seen")
    if team.is_chief and not trouble:
        tf.io.gfile.remove(probe)
    if trouble:
        raise UsageError(trouble, hint=hint)
    blind = [name for name, answer in zip(team.names, answers, strict=True) if answer == "no"]
    if blind:
        raise UsageError(
            f"what {team.names[0]} writes into {folder} is not there for {', '.join(blind)}",
            hint="checkpoint_dir must be on a file system that all workers share: a worker that "
            "does not see the checkpoint would begin anew while the others go on",
        )


def _chiefs_findings(folder: str, probe: str, *, keeps_one: bool) -> tuple[str, str]:
    """What is wrong, and what to do about it."""
    try:
        tf.io.gfile.makedirs(folder)
        with tf.io.gfile.GFile(probe, "w") as file:
            file.write("written to see whether all workers can read it")
    except (tf.errors.OpError, OSError) as error:
        return (
            f"checkpoint_dir {folder} cannot be written: {reason_of(error)}",
            "make the folder writable for this user, or give another one",
        )
    held = _checkpoints_in(folder)
    if keeps_one and len(held) > 1 and not _are_of_a_save_cut_short(held):
        tf.io.gfile.remove(probe)
        return (
            f"checkpoint_dir {folder} holds {len(held)} checkpoints, and TensorFlow's handler "
            "would delete all but one of them at the first save",
            "give the tf.train.CheckpointManager that keeps them instead of the Checkpoint, or "
            "another folder",
        )
    return "", ""


def _checkpoints_in(folder: str) -> list[str]:
    state = tf.train.get_checkpoint_state(folder)
    listed = state.all_model_checkpoint_paths if state else ()
    return [path for path in listed if tf.io.gfile.exists(path + ".index")]


def _are_of_a_save_cut_short(held: Sequence[str]) -> bool:
    """Whether a handler was killed after it had published a checkpoint, before the old one went."""
    keys = [{name for name, _ in tf.train.list_variables(path)} for path in held]
    return len(held) == 2 and all(COUNTER_KEY in names for names in keys)


def _appears(path: str) -> bool:
    pause = threading.Event()
    for _ in range(round(_SEEN_WITHIN / 0.1)):
        if tf.io.gfile.exists(path):
            return True
        pause.wait(0.1)
    return False
