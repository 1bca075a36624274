"""All that can tell a worker to go, heard as long as its handler is open.

signals, the watcher                                                    } -> told(reason)
TensorFlow's own catcher of SIGTERM, where it was quicker than we       }
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from tfdist_kit.adapters._keys import Keys
from tfdist_kit.adapters.preemption_checkpoint.notices import Signals, Watcher
from tfdist_kit.adapters.preemption_checkpoint.team import Team
from tfdist_kit.adapters.preemption_checkpoint.termination import Termination
from tfdist_kit.adapters.preemption_checkpoint.watchers.on_gce import gce_watcher, is_gce

_NATIVE_KEY = "TF_DEFAULT_PREEMPTION_NOTICE_KEY"
_LOOK_SECONDS = 2.0
_ASKS = 5
"""A metadata server that does not answer in its second may be slow."""


class GoogleCloud:
    """A watcher that fires on Google Cloud, and first finds out whether it is there.

    TensorFlow asks in its handler's constructor, takes whatever answers for Google Cloud, and does
    nothing at all there on a machine without GPUs.
    """

    def __init__(self) -> None:
        self._watcher: Callable[[], bool] | None = None
        self._asks_left = _ASKS

    def __call__(self) -> bool:
        """Whether it is time to go."""
        if self._watcher is None and self._asks_left:
            self._asks_left -= 1
            if is_gce():
                self._watcher = gce_watcher(("maintenance", "preempted"))
        return self._watcher is not None and self._watcher()


class Hearing:
    """The ears of one handler; to be made in the main thread.

    Args:
        config: What it is to hear.
        team: The workers.
        told: What is called, in a thread, with the reason; maybe more than once.
        in_main: What is called in the main thread after a signal.
    """

    def __init__(
        self,
        config: Termination,
        team: Team,
        told: Callable[[str], None],
        in_main: Callable[[], None],
    ) -> None:
        self._told = told
        self._closed = False
        self._signals = Signals(config.signals, lambda name: told(f"{name} was received"), in_main)
        function = config.termination_watcher_fn
        if function is None and config.detects_platform:
            function = GoogleCloud()
        self._watcher = function and Watcher(function, lambda name: told(f"{name} says so"))
        if isinstance(team.store, Keys):
            threading.Thread(
                target=self._watch_native, args=(team.store,), name="tfdist-native", daemon=True
            ).start()

    def close(self) -> None:
        """Hear nothing any more, and give the signals back."""
        self._closed = True
        self._signals.close()
        if self._watcher is not None:
            self._watcher.close()

    def _watch_native(self, store: Keys) -> None:
        """Wait for the key that TensorFlow writes when its own catcher got the signal."""
        try:
            while not self._closed:
                name = store.get(_NATIVE_KEY, _LOOK_SECONDS)
                if name is not None:
                    self._told(f"TensorFlow caught SIGTERM in {name}")
                    return
        except Exception:  # the cluster is no more
            return
