"""What a training program tells about its progress, seldom enough to cost it nothing.

    report_progress(step) -> the newest step -> a thread, at most once in `INTERVAL` seconds
        -> the report pipe -> supervisor

The thread exists only in a worker, from its first report on. Without it the newest step would stay
untold when the next one hangs.
"""

from __future__ import annotations

import atexit
import operator
import threading
import time
from collections.abc import Callable
from typing import Any, SupportsIndex

from tfdist_kit.launcher.inside import report

INTERVAL = 0.2


class _Teller(threading.Thread):
    """Passes the newest step on."""

    def __init__(self) -> None:
        super().__init__(name="tfdist-progress", daemon=True)
        self._step: int | None = None
        self._has_news = threading.Event()
        atexit.register(self._pass_on)
        self.start()

    def tell(self, step: int | None) -> None:
        self._step = step
        if not self._has_news.is_set():
            self._has_news.set()

    def run(self) -> None:
        while True:
            self._has_news.wait()
            self._pass_on()
            time.sleep(INTERVAL)

    def _pass_on(self) -> None:
        if not self._has_news.is_set():
            return
        self._has_news.clear()  # first: what is told from here on is news again
        step = self._step
        if step is None:
            report.say("alive")
        else:
            report.say("step", str(step))


_teller: _Teller | None = None


def report_progress(step: SupportsIndex | None = None) -> None:
    """Tell `tfdist run` that this worker goes on; may be called as often as you like.

    Each call counts as a sign of life for ``--stall-timeout``. In a program that `tfdist run` did
    not start, it does nothing.

    Args:
        step: How many steps are done, a whole number; None when they are not counted.

    Raises:
        TypeError: `step` is not a whole number.
    """
    global _teller
    number = None if step is None else operator.index(step)
    if report.is_the_worker():
        _teller = _teller or _Teller()
        _teller.tell(number)


def reporting(function: Callable[..., Any], steps: int | None) -> Callable[..., Any]:
    """Have each call of `function` reported, where there is a launcher to report to.

    Args:
        function: What is called again and again.
        steps: How many steps one call makes; None when they are not to be counted.
    """
    if not report.is_the_worker():
        return function
    done = 0

    def reported(*args: Any) -> Any:
        nonlocal done
        result = function(*args)
        done += steps or 0
        report_progress(done or None)
        return result

    return reported
