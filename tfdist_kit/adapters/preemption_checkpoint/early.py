"""Notices that come before there is a handler: nothing is lost yet, so the process just leaves.

As a container's first process (PID 1) a program has no default action for SIGTERM; and while
TensorFlow joins a cluster, its own catcher swallows the signal.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence

from tfdist_kit._errors import UsageError
from tfdist_kit.adapters.preemption_checkpoint.leaving import Leaving
from tfdist_kit.adapters.preemption_checkpoint.notices import Signals, checked, checked_code
from tfdist_kit.launcher.inside import report

_UNWIND_SECONDS = 0.3
_watching: list[Signals] = []
_handlers: list[object] = []
"""The handler that has taken over: what it is told must lead to a save."""


def watch_preemption(signals: Sequence[int] = (signal.SIGTERM,), exit_code: int = 42) -> None:
    """Leave with a stable code when a notice comes before the handler is made.

    To be called in the first line of a program. The handler takes over where it is made; beside
    an open handler this does nothing.

    Args:
        signals: Which signals are a notice.
        exit_code: What the process leaves with.

    Raises:
        UsageError: This is not the main thread, or an argument is wrong.
    """
    if threading.current_thread() is not threading.main_thread():
        raise UsageError(
            "watch_preemption() was called in another thread than the main one",
            hint="only the main thread can say what a signal does",
        )
    signals, exit_code = checked(signals), checked_code(exit_code)
    if _watching or _handlers:
        return
    leaving = Leaving(exit_code, _UNWIND_SECONDS, None, signals[0])
    report.say("heeding")
    _watching.append(Signals(signals, lambda _: leaving.from_thread(), leaving.if_asked))


def hand_over(handler: object) -> None:
    """Watch no more: a handler does."""
    _handlers.append(handler)
    while _watching:
        _watching.pop().close()


def hand_back(handler: object) -> None:
    """A handler watches no more."""
    if handler in _handlers:
        _handlers.remove(handler)
