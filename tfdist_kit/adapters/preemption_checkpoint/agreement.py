"""How the workers agree on the step after which all of them stop.

    somebody is told to go: put "notice" -> every worker, in a thread: hold the next step back,
    say how many steps it has begun -> the highest of these is the step to stop after

A worker that has begun fewer makes the missing ones, so that whoever waits for it in a collective
is served; nobody begins one more. It costs no collective and no further step, works for steps that
have no collective at all, and does not wait for the main thread, which may be deep in a step.
TensorFlow's own way lets a worker that is ahead pass the step, and loses the checkpoint then.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from tfdist_kit._errors import CheckpointError
from tfdist_kit.adapters.preemption_checkpoint.team import Team

ANSWER_SECONDS = 30.0
"""How long a worker's watching thread may take to say what it has begun."""
_LOOK_SECONDS = 2.0
_log = logging.getLogger(__name__)


class Agreement:
    """One worker's part in it.

    Args:
        team: The workers.
        on_notice: Called in the watching thread when all know where to stop.
    """

    def __init__(self, team: Team, on_notice: Callable[[], None]) -> None:
        self._team = team
        self._on_notice = on_notice
        self._changed = threading.Condition()
        self._begun = 0
        self._holds = False
        self._target: int | None = None
        self._failed: Exception | None = None
        self._round = 0
        self._closed = False
        self.noticed_by: str | None = None
        self.has_stopped = False
        """Whether this worker has come to where all stop."""

    # Any thread

    def call(self) -> bool:
        """Tell every worker that it is time to go; whether nobody had before."""
        return self._team.put(f"notice/{self._round}", self._team.name)

    def close(self) -> None:
        """Stop watching, soon."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    # The main thread

    @property
    def begun(self) -> int:
        """How many steps this worker has begun."""
        return self._begun

    def begin_step(self) -> bool:
        """Begin a step if that may be; False where all are to stop before it.

        Raises:
            CheckpointError: The workers cannot agree.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._holds or self._target is not None)
            if self._failed is not None:
                raise self._failed
            if self._target is not None and self._begun >= self._target:
                self.has_stopped = True
                return False
            self._begun += 1
            return True

    def take_back(self) -> None:
        """The step that was begun could not be made: there was no data for it."""
        with self._changed:
            self._begun -= 1

    def go_on(self) -> None:
        """Begin steps again, and listen for the next notice."""
        with self._changed:
            self._round += 1
            self._holds, self._target, self.has_stopped = False, None, False
            self._changed.notify_all()

    # The watching thread

    def watch(self) -> None:
        """Answer every notice, until closed or until the cluster is no more."""
        round_ = 0
        try:
            while self._wait_for_notice(round_):
                self._agree(round_)
                self._on_notice()
                self._wait_for_end_of(round_)
                round_ += 1
        except CheckpointError as error:
            self._fail(error)
        except Exception as error:  # the cluster has come to its end; its collectives tell why
            _log.info("no longer watching for preemption: %s", error)
            if self._holds and self._target is None:  # a step that waits would wait for ever
                self._fail(error)

    def _wait_for_end_of(self, round_: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._round > round_ or self._closed)

    def _wait_for_notice(self, round_: int) -> bool:
        while not self._closed:
            name = self._team.get(f"notice/{round_}", _LOOK_SECONDS)
            if name is not None:
                self.noticed_by = name
                return True
        return False

    def _agree(self, round_: int) -> None:
        with self._changed:
            self._holds = True
            begun = self._begun
        call = "answer a notice"
        told = self._team.exchange(f"begun/{round_}", str(begun), ANSWER_SECONDS, call)
        with self._changed:
            self._target = max(map(int, told))
            self._changed.notify_all()

    def _fail(self, error: Exception) -> None:
        with self._changed:
            self._failed, self._target = error, self._begun
            self._changed.notify_all()


def watching(agreement: Agreement, name: str) -> threading.Thread:
    """A thread that is to run `Agreement.watch`; not started."""
    return threading.Thread(target=agreement.watch, name=f"tfdist-agree-{name}", daemon=True)
