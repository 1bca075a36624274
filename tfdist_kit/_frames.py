"""Tells the user's own code from installed packages in a stack of frames."""

from __future__ import annotations

import functools
import linecache
import os
from types import FrameType


def is_users(frame: FrameType) -> bool:
    """Whether `frame` runs code that belongs to no installed package."""
    return is_users_file(frame.f_code.co_filename)


def is_users_file(filename: str) -> bool:
    """Whether `filename` belongs to no installed package."""
    return not filename.startswith(_not_the_users())


@functools.cache
def _not_the_users() -> tuple[str, ...]:
    import sysconfig  # here, since every import of the package would pay for it

    installed = [sysconfig.get_paths()[kind] for kind in ("stdlib", "purelib", "platlib")]
    folders = (os.path.join(folder, "") for folder in (*installed, os.path.dirname(__file__)))
    return ("<frozen", "<__array_function__", *folders)


def place(filename: str, line: int | None) -> str:
    """``file:line``, with the file as seen from the working directory if it lies below it."""
    try:
        below = os.path.join(os.getcwd(), "")
    except OSError:  # the working directory is gone
        below = ""
    return f"{filename.removeprefix(below)}:{line}"


def calling_line(frame: FrameType | None) -> str | None:
    """The innermost line of the user's whose text is known, else the innermost.

    Args:
        frame: Where to begin; its callers are looked at one after the other.

    Returns:
        Such as ``train.py:12: x = tf.constant(1.0)``; None when no line is the user's.
    """
    found: str | None = None
    while frame is not None:
        if is_users(frame):
            filename, line = frame.f_code.co_filename, frame.f_lineno
            text = linecache.getline(filename, line).strip()
            if text:
                return f"{place(filename, line)}: {text}"
            found = found or place(filename, line)
        frame = frame.f_back
    return found
