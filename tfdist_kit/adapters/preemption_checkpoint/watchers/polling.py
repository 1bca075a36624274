"""A watcher: looks for a notice each time it is called, and never takes longer than its second.

    call -> a thread looks -> True: fired, for good
                           -> False
                           -> raises: False, and a warning, once for each kind of problem
         -> no answer in time: the request is aborted, False

A look-up of a name or a disk may hang where nothing can end it. Its thread is left alone then,
and no other one is started before it has come back: a watcher has one thread at most, and none
between its calls. What the thread finds late counts at the next call.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from tfdist_kit.adapters.preemption_checkpoint.watchers.metadata import Client, Unexpected

_log = logging.getLogger(__name__)
SECONDS = 0.7  # of the one second, the rest is for a busy machine
_LATE = "late"


class Look:
    """One look for a notice, in a thread that it starts.

    Args:
        look: Returns whether there is a notice; makes its requests by the client that it is given.

    Attributes:
        found: Whether there was a notice, once it has come back.
        error: What it raised instead, if it did.
    """

    def __init__(self, look: Callable[[Client], bool]) -> None:
        self.found = False
        self.error: Exception | None = None
        self._look = look
        self._client = Client(SECONDS)
        self._thread = threading.Thread(target=self._run, name="tfdist-watcher", daemon=True)
        self._thread.start()

    def wait(self) -> bool:
        """Whether it came back in time; aborts it when its time is over."""
        self._thread.join(SECONDS)
        in_time = not self.is_under_way()
        if not in_time:
            self._client.abort()
        return in_time

    def is_under_way(self) -> bool:
        """Whether its thread still runs."""
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            self.found = bool(self._look(self._client))
        except Exception as error:
            self.error = error


class Watcher:
    """Says whether a notice has come; call it about once a second.

    Args:
        name: What is watched, for the log.
        look: As for `Look`.
    """

    def __init__(self, name: str, look: Callable[[Client], bool]) -> None:
        self._name = name
        self._look = look
        self._fired = False
        self._late: Look | None = None
        self._told: set[str] = set()
        self._busy = threading.Lock()

    def __call__(self) -> bool:
        """Whether a notice has come, by now; never raises."""
        if not self._fired and self._busy.acquire(blocking=False):
            try:
                self._fired = self._watch()
            except Exception as error:
                self._tell(_kind(error), error)
            finally:
                self._busy.release()
        return self._fired

    def _watch(self) -> bool:
        if self._late is not None:
            if self._late.is_under_way():
                return False
            late, self._late = self._late, None
            if late.found:
                return True
        look = Look(self._look)
        if not look.wait():
            self._late = look
            self._tell(_LATE, f"no answer within {SECONDS} s")
        elif look.error is not None:
            self._tell(_kind(look.error), look.error)
        return look.found

    def _tell(self, kind: str, problem: object) -> None:
        if kind not in self._told:
            self._told.add(kind)
            _log.warning(
                "%s: cannot tell whether there is a notice: %s (said once; watching goes on)",
                self._name,
                problem or kind,
            )


def _kind(error: Exception) -> str:
    """There are few of them: other texts of errors may hold whatever a server has sent."""
    if isinstance(error, Unexpected):
        return str(error)
    if isinstance(error, TimeoutError):
        return _LATE
    return f"{type(error).__name__} {getattr(error, 'errno', '')}"
