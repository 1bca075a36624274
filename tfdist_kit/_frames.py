"""Tells the user's own code from installed packages in a stack of frames."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path
from types import FrameType

_NOT_THE_USERS = (
    "<frozen",
    "<__array_function__",
    *(sysconfig.get_paths()[kind] for kind in ("stdlib", "purelib", "platlib")),
    str(Path(__file__).parent),
)


def is_users(frame: FrameType) -> bool:
    """Whether `frame` runs code that belongs to no installed package."""
    return not frame.f_code.co_filename.startswith(_NOT_THE_USERS)


def place(filename: str, line: int | None) -> str:
    """``file:line``, with the file as seen from the working directory if it lies below it."""
    return f"{filename.removeprefix(os.path.join(os.getcwd(), ''))}:{line}"
