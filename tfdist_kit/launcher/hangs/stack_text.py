"""Reads what Python's faulthandler writes.

Its text is the same since Python 3.10: threads, the newest first, each with its calls, the
innermost first. From 3.14 on a thread has a name as well. One thread alone is just a "Stack".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_THREAD = re.compile(r"(Current thread|Thread|Stack)\b.* ?\(most recent call first\):$")
_FRAME = re.compile(r'  File "(.*)", line (\d+|\?\?\?) in (.*)$')
_CUT = "  ..."
_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")


@dataclass(frozen=True)
class Frame:
    """One call.

    Attributes:
        file: The file's name as the code object has it.
        line: The line that is being run; 0 when it is not known.
        function: The function's name.
    """

    file: str
    line: int
    function: str


@dataclass(frozen=True)
class Thread:
    """One thread.

    Attributes:
        frames: Its calls, the innermost first.
        took_the_signal: Whether it is the one that wrote the stacks.
        is_cut: Whether it has more calls than were written.
    """

    frames: tuple[Frame, ...]
    took_the_signal: bool = False
    is_cut: bool = False


def parse(text: str) -> tuple[Thread, ...]:
    """Read the threads out of `text`; what is not understood is passed over."""
    threads: list[Thread] = []
    for line in text.splitlines():
        if found := _THREAD.match(line):
            threads.append(Thread((), took_the_signal=found[1] != "Thread"))
        elif threads:
            threads[-1] = _with_line(threads[-1], line)
    return tuple(threads)


def _with_line(thread: Thread, line: str) -> Thread:
    found = _FRAME.match(line)
    if found:
        number = 0 if found[2] == "???" else int(found[2])
        frame = Frame(_unescaped(found[1]), number, _unescaped(found[3]))
        return Thread((*thread.frames, frame), thread.took_the_signal, thread.is_cut)
    if line == _CUT:
        return Thread(thread.frames, thread.took_the_signal, True)
    return thread


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1] or found[2] or found[3], 16)), text)


def main_thread(
    threads: tuple[Thread, ...], is_launchers: Callable[[Frame], bool]
) -> Thread | None:
    """The thread that runs the script.

    Args:
        threads: All threads of a process.
        is_launchers: Tells the calls that every script of ours is run by.

    Returns:
        None when there are no threads.
    """
    oldest_first = [thread for thread in reversed(threads) if not _is_started(thread)]
    tests = (
        lambda thread: any(map(is_launchers, thread.frames)),
        lambda thread: thread.took_the_signal,
        lambda _: True,
    )
    return next((thread for test in tests for thread in oldest_first if test(thread)), None)


def _is_started(thread: Thread) -> bool:
    """Whether it was started by `threading`, as every thread of Python code but the first is."""
    return bool(thread.frames) and thread.frames[-1].function == "_bootstrap"
