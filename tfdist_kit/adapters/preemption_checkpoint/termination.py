"""How a training is told to end, and how it then ends: TensorFlow's TerminationConfig, and more."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import tensorflow as tf

from tfdist_kit._errors import UsageError
from tfdist_kit.adapters.preemption_checkpoint.notices import checked, checked_code
from tfdist_kit.adapters.preemption_checkpoint.watchers.config import seconds

AfterTraining = Literal["exit", "finish"]
RESTART_CODE = 42


class Termination(tf.distribute.experimental.TerminationConfig):  # type: ignore[misc]
    """TensorFlow's TerminationConfig, and what it leaves open.

    Args:
        termination_watcher_fn: Is asked once a second whether it is time to go, beside the
            signals; what it raises is logged, and it is asked again.
        exit_fn: Is called after the save, before this process leaves. It may leave by itself, as
            with ``sys.exit(7)``.
        grace_period: Seconds from the notice to the end. More than 0: save, train on, and save
            again in time to be gone by then; the time that a save takes is kept free three
            times. None: save and leave at once.
        save_fn: Saves instead of the handler, on every worker, which must take care that only
            the chief writes into the checkpoint's folder.
        signals: Which signals are a notice: SIGUSR1 for Slurm's ``--signal=USR1@120``.
        exit_code: What a process leaves with, so that whoever started it starts it again.
        after_training: What a notice does after `finish_training`: ``"exit"`` leaves at once
            with `exit_code`, since all is saved; ``"finish"`` lets evaluation and export end.
        patience: Seconds after a notice in which some worker must come to the end of its step;
            then the process leaves without a save. None waits as long as the platform does.
        leave_within: Seconds that the program has to unwind once all is saved.
        meet_within: Seconds that the workers wait for each other before and after a save.
        detects_platform: Whether, without a watcher, the metadata server of Google Cloud is
            watched where there is one: for maintenance, and for a Spot machine's preemption.

    Raises:
        UsageError: A value cannot be meant.

    Source: https://www.tensorflow.org/api_docs/python/tf/distribute/experimental/TerminationConfig
    """

    def __init__(
        self,
        termination_watcher_fn: Callable[[], object] | None = None,
        exit_fn: Callable[[], object] | None = None,
        grace_period: float | None = None,
        save_fn: Callable[..., object] | None = None,
        *,
        signals: Sequence[int] = (signal.SIGTERM,),
        exit_code: int = RESTART_CODE,
        after_training: AfterTraining = "exit",
        patience: float | None = None,
        leave_within: float = 1.0,
        meet_within: float = 600.0,
        detects_platform: bool = True,
    ) -> None:
        super().__init__(termination_watcher_fn, exit_fn, grace_period, save_fn)
        self.signals = checked(signals)
        self.exit_code = checked_code(exit_code)
        self.after_training: AfterTraining = after_training
        self.patience = patience
        self.leave_within = leave_within
        self.meet_within = meet_within
        self.detects_platform = detects_platform
        _check(self)


def completed(config: Any) -> Termination:
    """TensorFlow's own config, or none, with the kit's defaults for the rest.

    Raises:
        UsageError: It is no TerminationConfig.
    """
    if isinstance(config, Termination):
        return config
    if config is None:
        return Termination()
    if not isinstance(config, tf.distribute.experimental.TerminationConfig):
        raise UsageError(
            f"termination is {config!r}",
            hint="give a Termination, or a tf.distribute.experimental.TerminationConfig",
        )
    return Termination(
        config.termination_watcher_fn, config.exit_fn, config.grace_period, config.save_fn
    )


def _check(config: Termination) -> None:
    for name in ("termination_watcher_fn", "exit_fn", "save_fn"):
        function = getattr(config, name)
        if function is not None and not callable(function):
            raise UsageError(f"{name} is {function!r}", hint="give a function, or None")
    if config.exit_fn is not None and _does_nothing(config.exit_fn):
        raise UsageError(
            "exit_fn does nothing, so that it would not exit",
            hint="leave it out: the process then leaves with exit_code. A process that trained on "
            "could never be told to go again, for TensorFlow's keys are written once",
        )
    _check_numbers(config)
    if config.after_training not in get_args(AfterTraining):
        raise UsageError(
            f"after_training is {config.after_training!r}",
            hint=f"use one of {', '.join(get_args(AfterTraining))}",
        )


def _check_numbers(config: Termination) -> None:
    for name in ("grace_period", "patience", "leave_within", "meet_within"):
        value = getattr(config, name)
        if value is not None:
            seconds(name, value)


def _does_nothing(function: Callable[..., object]) -> bool:
    """Whether a function of Python's calls and raises nothing, so that it surely returns."""
    code = getattr(function, "__code__", None)
    return code is not None and not code.co_names and not code.co_freevars
