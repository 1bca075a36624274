"""TensorFlow's PreemptionCheckpointHandler, of which no notice and no save is lost.

    signal, watcher, TensorFlow's own catcher -> Agreement -> the step where all stop
        -> `run` saves there, all together -> SystemExit with a code that stays

What is TensorFlow's stays TensorFlow's: restoring, the checkpoint managers, counting, the saving
itself, and telling peers of TensorFlow's own errors. What this class adds is in the modules beside
it, one fact each.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

import tensorflow as tf

from tfdist_kit._errors import CheckpointError
from tfdist_kit.adapters._private import private
from tfdist_kit.adapters.preemption_checkpoint import checks, early, folders
from tfdist_kit.adapters.preemption_checkpoint.agreement import Agreement, watching
from tfdist_kit.adapters.preemption_checkpoint.end_of_data import EndOfData, end_together
from tfdist_kit.adapters.preemption_checkpoint.hearing import Hearing
from tfdist_kit.adapters.preemption_checkpoint.leaving import Leaving
from tfdist_kit.adapters.preemption_checkpoint.own_state import OwnState
from tfdist_kit.adapters.preemption_checkpoint.reading import Reading
from tfdist_kit.adapters.preemption_checkpoint.saving import Saving
from tfdist_kit.adapters.preemption_checkpoint.team import team_of
from tfdist_kit.adapters.preemption_checkpoint.termination import completed
from tfdist_kit.launcher.inside import report
from tfdist_kit.launcher.inside.progress import report_progress

_MODULE = "tensorflow.python.distribute.failure_handling.failure_handling"
_UTIL = "tensorflow.python.distribute.failure_handling.failure_handling_util"
_OVERRIDDEN = (
    "_check_preemption_and_maybe_checkpoint",
    "_maybe_create_checkpoint_manager",
    "_save_checkpoint",
    "_start_watching_for_signal",
    "_stop_cluster_wise_termination_watcher_thread",
    "_stop_poll_termination_signal_thread",
    "_time_to_exit",
    "_watch_step_to_save_key",
)
_FREE_SAVES = 3
_LEAVING_SECONDS = 0.3
_log = logging.getLogger(__name__)
_numbers = itertools.count()
_open: list[PreemptionCheckpointHandler] = []


class PreemptionCheckpointHandler(
    tf.distribute.experimental.PreemptionCheckpointHandler  # type: ignore[misc]
):
    """See `preemption_checkpoint_handler`, which makes it."""

    _is_chief: bool
    _run_counter: int
    _read_checkpoint_manager: Any

    def __init__(
        self,
        strategy: Any,
        checkpoint_or_manager: Any,
        checkpoint_dir: str | os.PathLike[str] | None,
        termination: Any,
        per_worker: Any,
    ) -> None:
        number = next(_numbers)
        self._config = config = completed(termination)
        checks.check_types(strategy, checkpoint_dir, per_worker)
        resolver = strategy.cluster_resolver
        folder = os.fspath(checkpoint_dir) if checkpoint_dir is not None else ""
        checks.check_task(resolver)
        _require_what_is_overridden()
        self._team = team = team_of(resolver, number)
        team.together(
            "arguments",
            lambda: checks.check_arguments(checkpoint_or_manager, folder, is_second=bool(_open)),
            config.meet_within,
            checks.CALL,
        )
        is_managed = isinstance(checkpoint_or_manager, tf.train.CheckpointManager)
        folder = str(checkpoint_or_manager.directory) if is_managed else folder
        self._checkpoint_dir = folder
        self._is_over = self._in_step = False
        self._ends_at = self._last_step = 0.0
        self._leads = False
        self._data_ends = itertools.count()
        self._agreement = Agreement(team, self._on_notice)
        self._leaving = Leaving(
            config.exit_code, config.leave_within, config.exit_fn, config.signals[0]
        )
        self._own = OwnState(per_worker, folder, team.name)
        self._saving = Saving(team, folder, self._own, config.meet_within)
        checks.check_folder(team, folder, keeps_one=not is_managed, seconds=config.meet_within)
        folders.sweep(folder, team)
        with _platform_of():
            super().__init__(resolver, checkpoint_or_manager, folder, _for_tensorflow(config))
        self._adopt_counter()
        _open.append(self)
        report.say("watching")

    # The training

    def run(self, distributed_train_function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run one step of the training; see TensorFlow's `PreemptionCheckpointHandler.run`.

        Args:
            distributed_train_function: The step; what follows are its arguments.
            args: See there.
            kwargs: See there.

        Returns:
            What it returns.

        Raises:
            SystemExit: It is time to go, and all is saved.
            CheckpointError: The workers could not save together.
        """
        result = super().run(self._guarded, distributed_train_function, args, kwargs)
        if isinstance(result, EndOfData):
            self._run_counter -= 1
            number, within = next(self._data_ends), self._config.meet_within
            end_together(self._team, number, self._agreement.begun, within)
            raise result.error
        report_progress(int(self._run_counter))
        return result

    def save_checkpoint_if_preempted(self, *args: Any, **kwargs: Any) -> None:
        """Save and leave if it is time to go; to be called after each step of a loop of one's own.

        Args:
            args: What `tf.train.CheckpointManager.save` takes, as with TensorFlow's.
            kwargs: Likewise.

        Raises:
            SystemExit: It is time to go, and all is saved.
            CheckpointError: The workers could not save together.
        """
        self._run_counter += 1
        report_progress(int(self._run_counter))
        self._check_preemption_and_maybe_checkpoint(*args, **kwargs)

    @property
    def total_run_calls(self) -> int:
        """How many steps have been made, in all incarnations of the training."""
        return int(self._run_counter)

    def save(self) -> None:
        """Save now; every worker calls it, after the same step.

        The chief writes into the checkpoint's folder, the others what nobody reads: a variable
        that is aggregated on reading needs them all.

        Raises:
            CheckpointError: It could not be saved, or a worker did not call.
        """
        self._save_checkpoint()

    def finish_training(self) -> None:
        """Save, and begin the time after the last step; every worker calls it, once.

        From then on a notice ends the process at once, or not at all
        (``Termination(after_training=...)``).

        Raises:
            CheckpointError: It could not be saved, or the workers have not made equally many
                steps.
        """
        if self._is_over:
            return
        self._require_equal_steps()
        self._save_checkpoint()
        self._is_over = True
        if self._agreement.noticed_by is not None:
            self._on_notice()
            self._leaving.if_asked()

    def close(self) -> None:
        """Watch no more, and give the signals back."""
        self._agreement.close()
        self._hearing.close()
        early.hand_back(self)
        if self in _open:
            _open.remove(self)

    def __enter__(self) -> PreemptionCheckpointHandler:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        frames: TracebackType | None,
    ) -> None:
        if kind is None:
            self.finish_training()

    def _require_equal_steps(self) -> None:
        begun, seconds = str(self._agreement.begun), self._config.meet_within
        told = self._team.exchange("finish", begun, seconds, "call finish_training()")
        if len(set(told)) > 1:
            steps = ", ".join(f"{n}: {t}" for n, t in zip(self._team.names, told, strict=True))
            raise CheckpointError(
                f"the workers have not made equally many steps ({steps})",
                hint="every worker must call run() equally often: give each equally many batches",
            )

    def _guarded(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """One step, as TensorFlow's `run` runs it, which tells peers of its own errors only."""
        self._in_step, began = True, time.monotonic()
        try:
            return function(*args, **kwargs)
        except (tf.errors.OutOfRangeError, StopIteration) as end:
            self._agreement.take_back()
            return EndOfData(end)
        except tf.errors.OpError:
            raise
        except BaseException as error:
            if not self._leaving.has_begun:  # each worker leaves by itself
                self._team.tell_of(error)
            raise
        finally:
            self._in_step, self._last_step = False, time.monotonic() - began

    # What TensorFlow's class calls

    def _maybe_create_checkpoint_manager(self) -> None:
        """Have all workers read from one place, and only the chief write there."""
        is_chief, self._is_chief = self._is_chief, True  # it makes a folder beside ours, else
        super()._maybe_create_checkpoint_manager()
        self._is_chief = is_chief
        manager = self._read_checkpoint_manager
        self._read_checkpoint_manager = Reading(
            manager, self._team, self._own, self._config.meet_within
        )
        self._write_checkpoint_manager = manager
        if not self._is_chief:
            private_folder = folders.private_folder(self._checkpoint_dir, self._team.name)
            self._write_checkpoint_manager = tf.train.CheckpointManager(
                manager.checkpoint, private_folder, max_to_keep=1
            )

    def _start_watching_for_signal(self) -> None:
        early.hand_over(self)
        self._hearing = Hearing(self._config, self._team, self._told, self._leaving.if_asked)
        if self._local_mode:
            watching(self._agreement, self._team.name).start()

    def _watch_step_to_save_key(self) -> None:
        self._agreement.watch()

    def _stop_cluster_wise_termination_watcher_thread(self) -> None:
        self._agreement.close()

    def _stop_poll_termination_signal_thread(self) -> None:
        """There is none: `Hearing` asks the watcher."""

    def _check_preemption_and_maybe_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        """Begin a step; or, where all are to stop, save and leave."""
        if self._agreement.begin_step():
            return
        report.say("saving")
        self._save_checkpoint(*args, **kwargs)
        report.say("saved")
        if self._time_to_exit() or self._is_short_of_time():
            _log.info("saved at run %d; leaving", self._run_counter)
            self._leaving.now()
        self._final_checkpoint_countdown = True
        self._agreement.go_on()
        if self._leads:
            _in_a_thread(self._time_to_train(), self._agreement.call)
        self._agreement.begin_step()

    def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        write = super()._save_checkpoint
        self._saving.save(int(self._run_counter), lambda: write(*args, **kwargs))

    def _adopt_counter(self) -> None:
        """Count with the variable of an earlier handler of this checkpoint, if there was one."""
        counter = self._read_checkpoint_manager.checkpoint.checkpointed_runs
        self._checkpointed_runs, self._run_counter = counter, int(counter.numpy())

    # What is heard

    def _told(self, reason: str) -> None:
        """This process was told to go; called in a thread."""
        noticed = time.monotonic()
        if self._agreement.call():
            _log.warning("%s: %s", self._team.name, reason)
            self._leads = True
            self._ends_at = noticed + self._grace_period

    def _is_short_of_time(self) -> bool:
        """Whether the grace period has no room for another save; the one that was told knows."""
        is_short = self._leads and self._time_to_train() <= 0
        seconds = self._config.meet_within
        told = self._team.exchange("short of time", str(is_short), seconds, "call run()")
        self._team.let_chief_go_last("short of time")
        return str(True) in told

    def _time_to_train(self) -> float:
        """Seconds until the last save must begin, so that it is done within the grace period."""
        kept_free = _FREE_SAVES * self._saving.slowest + 2 * self._last_step + _LEAVING_SECONDS
        return self._ends_at - time.monotonic() - kept_free

    def _on_notice(self) -> None:
        """All know where to stop; called in a thread."""
        if self._in_step:
            report.say("saving")  # as good as: whoever ends this run is to wait for it
        if not self._is_over and self._config.patience is not None:
            _in_a_thread(self._config.patience, self._lose_patience)
        if self._is_over and self._config.after_training == "exit":
            self._team.let_chief_go_last("after training")
            self._leaving.from_thread()
        elif self._is_over:
            _log.warning("a notice came after the training, which finishes all the same")

    def _lose_patience(self) -> None:
        if not self._agreement.has_stopped and not self._is_over:
            _log.warning("no step came to its end after the notice: leaving without a save")
            self._leaving.from_thread()


def on_tpu(strategy: Any) -> bool:
    """Whether the strategy's steps run on TPUs, where TensorFlow's class works in another way."""
    return isinstance(strategy, tf.distribute.TPUStrategy)


def _in_a_thread(seconds: float, act: Callable[[], object]) -> None:
    timer = threading.Timer(max(0.0, seconds), act)
    timer.daemon = True
    timer.start()


def _require_what_is_overridden() -> None:
    for name in _OVERRIDDEN:
        private(_MODULE, "PreemptionCheckpointHandler", name)


def _for_tensorflow(config: Any) -> Any:
    """What TensorFlow's constructor may know: it would poll, and catch signals, in its own way."""
    return tf.distribute.experimental.TerminationConfig(
        grace_period=config.grace_period, save_fn=config.save_fn
    )


@contextlib.contextmanager
def _platform_of() -> Iterator[None]:
    """Keep TensorFlow from asking where it runs: on Google Cloud it would then do nothing."""
    platforms = private(_UTIL, "PlatformDevice")
    has_gpu = bool(tf.config.list_logical_devices("GPU"))
    platform = platforms.INTERNAL_GPU if has_gpu else platforms.INTERNAL_CPU
    original = private(_UTIL, "detect_platform")
    util = sys.modules[_UTIL]
    util.detect_platform = lambda: platform  # type: ignore[attr-defined]
    try:
        yield
    finally:
        util.detect_platform = original  # type: ignore[attr-defined]
