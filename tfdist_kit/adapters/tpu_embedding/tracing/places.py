"""Where in the user's program something is: the innermost line that is no library's."""

from __future__ import annotations

import inspect
import os
import re
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_LIBRARIES = ("tensorflow", "keras", "tf_keras", "tfdist_kit.adapters", "tfdist_kit.testing")
_PYTHON = sysconfig.get_path("stdlib") + os.sep
_OF_AUTOGRAPH = "__autograph_generated_file"
_LINE = re.compile(r'^ *File "(.+?)", line (\d+), in ', re.MULTILINE)


def place_of(frames: Iterable[Any]) -> str:
    """``file:line`` of the innermost of `frames` (with ``filename`` and ``lineno``); or empty."""
    own = [frame for frame in frames if _is_own(frame.filename)]
    return _shown(own[-1].filename, own[-1].lineno) if own else ""


def place_of_function(function: Any) -> str:
    """``file:line`` where a function, or a ``tf.function``, begins; empty if it is none."""
    plain = inspect.unwrap(getattr(function, "python_function", function))
    code = getattr(plain, "__code__", None)
    return "" if code is None else _shown(code.co_filename, code.co_firstlineno)


def place_in(text: str) -> str:
    """``file:line`` of the innermost line of the user's in a traceback as text; or empty."""
    own = [found for found in _LINE.findall(text) if _is_own(found[0])]
    return _shown(*own[-1]) if own else ""


def _shown(file: str, line: int | str) -> str:
    path = Path(file)
    return f"{path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}:{line}"


def _is_own(file: str) -> bool:
    is_file = not file.startswith("<") and _OF_AUTOGRAPH not in file
    of_python = file.startswith(_PYTHON) and "site-packages" not in file
    return is_file and not of_python and not file.startswith(_library_folders())


def _library_folders() -> tuple[str, ...]:
    files = [getattr(sys.modules.get(name), "__file__", None) for name in _LIBRARIES]
    return tuple(os.path.dirname(file) + os.sep for file in files if file)
