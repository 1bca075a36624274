"""Where the workers of one cluster leave each other word: a key is written once, and read by all.

It is TensorFlow's coordination service, which every cluster of several workers has. Its own barrier
is not used: that holds the interpreter's lock while it waits, so that no thread of the process
could answer a peer, and no signal be heard.
"""

from __future__ import annotations

import inspect
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence

from tfdist_kit.adapters._private import private

_CONTEXT = "tensorflow.python.eager.context"
_SLICE = 0.5
"""Seconds until a waiting worker looks whether a signal or the death of a peer has come."""


class Keys:
    """The keys of this process's cluster.

    Args:
        tasks: Those that train together, as ``type:index``, chief first.
    """

    def __init__(self, tasks: Sequence[str]) -> None:
        self._tasks = tuple(tasks)
        self._context = private(_CONTEXT, "context")()
        self._read = self._context.get_config_key_value
        self._takes_deadline = "timeout_in_ms" in inspect.signature(self._read).parameters

    def put(self, key: str, value: str) -> bool:
        """Write a key; False if it is there already."""
        import tensorflow as tf

        try:
            self._context.set_config_key_value(key, value)
        except tf.errors.AlreadyExistsError:
            return False
        return True

    def get(self, key: str, seconds: float) -> str | None:
        """Wait for a key; None if nobody writes it in time.

        Raises:
            tf.errors.UnavailableError: A task has died.
        """
        import tensorflow as tf

        ends = time.monotonic() + seconds
        while True:
            left = max(ends - time.monotonic(), 0.001)
            try:
                return self._get(key, min(left, _SLICE))
            except tf.errors.DeadlineExceededError:
                self._raise_for_the_dead()
            if time.monotonic() >= ends:
                return None

    def remove(self, key: str) -> None:
        """Take a key back."""
        self._context.delete_config_key_value(key)

    def report_error(self, error_code: int, message: str) -> None:
        """Raise an error in every other worker."""
        self._context.report_error_to_cluster(error_code, message)

    def _get(self, key: str, seconds: float) -> str:
        if self._takes_deadline:
            return str(self._read(key, max(1, round(seconds * 1000))))  # 0 would wait for ever
        return _with_deadline(lambda: str(self._read(key)), seconds)

    def _raise_for_the_dead(self) -> None:
        import tensorflow as tf

        counts = Counter(task.partition(":")[0] for task in self._tasks)
        states = self._context.get_task_states(list(counts.items()))
        for task, state in zip(self._tasks, states, strict=False):
            if state is not None:
                told = f"the task {task} has crashed: {getattr(state, 'message', state)}"
                raise tf.errors.UnavailableError(None, None, told)


def _with_deadline(read: Callable[[], str], seconds: float) -> str:
    """Give up a call that cannot be given a deadline, as TensorFlow before 2.19 has it."""
    import tensorflow as tf

    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(read()), daemon=True)
    thread.start()
    thread.join(seconds)
    if not found:
        raise tf.errors.DeadlineExceededError(None, None, "no value yet")
    return found[0]
