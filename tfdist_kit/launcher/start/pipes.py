"""The descriptors between a launcher and one of its workers.

    alive    the launcher never writes: its end-of-file is the launcher's death
    leave    its end-of-file lets a worker that has finished leave
    report   the worker says its phases, a line each (`report`)
    stdout, stderr    the worker's output

All of them are inherited; nothing here has a name that another program could open.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_TO_WORKER = ("alive", "leave")
_FROM_WORKER = ("report", "stdout", "stderr")


@dataclass(frozen=True)
class Ends:
    """Both ends of everything that leads to one worker, by name.

    Attributes:
        ours: The launcher's ends.
        workers: The worker's ends, which the launcher closes once the worker has them.
    """

    ours: Mapping[str, int]
    workers: Mapping[str, int]


@contextlib.contextmanager
def open_ends(given: Mapping[str, int]) -> Iterator[Ends]:
    """Open the pipes to a worker; the worker's ends are closed again when the block is left.

    The launcher's ends are closed only if the block fails.

    Args:
        given: Descriptors that the worker gets as they are, by name; no pipe is made for those.
    """
    ours: dict[str, int] = {}
    workers: dict[str, int] = {}
    with contextlib.ExitStack() as on_failure, contextlib.ExitStack() as always:
        for name in (*_TO_WORKER, *_FROM_WORKER):
            if name in given:
                continue
            reading, writing = os.pipe()
            for_worker, for_us = (reading, writing) if name in _TO_WORKER else (writing, reading)
            always.callback(os.close, for_worker)
            on_failure.callback(os.close, for_us)
            if name in _FROM_WORKER:
                os.set_blocking(for_us, False)
            ours[name], workers[name] = for_us, for_worker
        yield Ends(ours, {**workers, **given})
        on_failure.pop_all()
