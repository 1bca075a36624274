"""A second strategy in a process that has joined a cluster already: all workers make it together.

    Context.enable_collective_ops (called by each constructor) -> meet -> the original -> meet

TensorFlow waits for all workers in the first strategy's constructor only. Every later one empties
the buffers of the running server at once; a worker that is quicker than its peer has by then put
into them what belongs to its next collective, which is lost: "Collective ops is aborted by: Delete
called on non-empty BufRendezvous", once in some hundred times.
"""

from __future__ import annotations

import math
from typing import Any

from tfdist_kit.adapters._private import private

_CONTEXT = "tensorflow.python.eager.context"
_METHOD = "enable_collective_ops"
_LONGEST = 24 * 3600.0


def meet_when_remade(timeout: float | None = None, *, context: Any = None) -> None:
    """Have the workers wait for each other whenever they make a further strategy.

    It acts on every strategy of this process, TensorFlow's own as well; calling it again changes
    the time.

    Args:
        timeout: How long a worker waits for the others, in seconds, before TensorFlow raises
            `DeadlineExceededError`; None is a day.
        context: TensorFlow's context module, if it must not be imported for this.

    Raises:
        UnsupportedVersionError: TensorFlow's internals are not as expected.
    """
    owner = getattr(context, "Context", None) or private(_CONTEXT, "Context")
    original = getattr(owner, _METHOD, None) or private(_CONTEXT, "Context", _METHOD)
    milliseconds = math.ceil((timeout or _LONGEST) * 1000)
    if hasattr(original, "tfdist_meeting"):
        original.tfdist_meeting.milliseconds = milliseconds
        return
    meeting = _Meeting(milliseconds)

    def enable_collective_ops(self: Any, server_def: Any) -> None:
        meets = self._context_handle is not None and bool(self.coordination_service)
        meeting.hold(self, meets)
        original(self, server_def)
        meeting.hold(self, meets)

    enable_collective_ops.tfdist_meeting = meeting  # type: ignore[attr-defined]
    owner.enable_collective_ops = enable_collective_ops


class _Meeting:
    """Where the workers wait for each other, by a number that each of them counts."""

    def __init__(self, milliseconds: int) -> None:
        self.milliseconds = milliseconds
        self._number = 0

    def hold(self, context: Any, meets: bool) -> None:
        if meets:
            self._number += 1
            context.wait_at_barrier(f"tfdist/remade/{self._number}", self.milliseconds)
