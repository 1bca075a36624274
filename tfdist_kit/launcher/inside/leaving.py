"""How a worker leaves: as Python does, but without the interpreter's own teardown.

    the program has ended -> its threads end -> (wait for the other workers) -> atexit functions
    -> what the program held is let go -> open files and streams are flushed -> os._exit

Taking TensorFlow's modules apart one by one costs 0.7 to 3 seconds and serves nobody. What a
program can notice of an interpreter's end is done here: ``threading``'s and ``atexit``'s part,
the finalizers of whatever its own modules hold, and every file that was left open.
"""

from __future__ import annotations

import _io
import atexit
import contextlib
import gc
import os
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, NoReturn

from tfdist_kit import _frames

FLUSH_FAILED_EXIT = 120
NoneType = type(None)
_USED_BY_FINALIZERS = (
    *(ModuleType, type, FunctionType, BuiltinFunctionType, MethodType),
    *(str, bytes, int, float, complex, NoneType),
)
# Ending these can take TensorFlow a minute, and writes nothing: data sets' iterators, strategies.
_NOT_WORTH_IT = ("tensorflow.python.data.", "tensorflow.python.distribute.")
_CONTAINERS = (dict, list, set, tuple, frozenset, deque)


def end_threads() -> None:
    """Wait for the program's threads, as the interpreter does at its end."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]
    except BaseException as error:
        print(f"Exception ignored in threading._shutdown: {error!r}", file=sys.stderr)


def wait_for_end_of_file(fd: int) -> None:
    """Wait until the launcher closes its end of a pipe."""
    with contextlib.suppress(OSError):
        while os.read(fd, 1):
            pass


def leave(code: int) -> NoReturn:
    """End this process with `code`, or with 120 when its output cannot be written, as Python."""
    with contextlib.suppress(BaseException):
        atexit._run_exitfuncs()
    for last_act in (_flush_summaries, _let_go):
        with contextlib.suppress(BaseException):
            last_act()
    flushed = [_flushed(stream) for stream in _streams()]
    os._exit(code if all(flushed) else FLUSH_FAILED_EXIT)


def _flush_summaries() -> None:
    """Flush TensorFlow's default summary writer, which only the teardown would finalize."""
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is not None:
        tensorflow.summary.flush()


def _let_go() -> None:
    """Drop what the program's own modules hold, so that it is finalized.

    Functions, classes, modules and plain values stay, since finalizers use them. Beside other
    threads, which go on here for a moment, nothing is dropped; open files are closed all the same.
    """
    if len(sys._current_frames()) == 1:
        modules = list(_own_modules())
        for are_containers in (False, True):
            for module in reversed(modules):
                _drop(module, are_containers)
        gc.collect()
    _close_files(gc.get_objects())


def _drop(module: ModuleType, are_containers: bool) -> None:
    for name in list(module.__dict__):
        value = module.__dict__[name]
        stays = (
            name.startswith("__")
            or isinstance(value, _USED_BY_FINALIZERS)
            or type(value).__module__.startswith(_NOT_WORTH_IT)
        )
        if not stays and isinstance(value, _CONTAINERS) == are_containers:
            del module.__dict__[name]
        del value


def _own_modules() -> Iterator[ModuleType]:
    """The program's modules, in the order of their import: not those of installed packages."""
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None) if type(module) is ModuleType else None
        if name == "__main__" or (isinstance(path, str) and _frames.is_users_file(path)):
            yield module


def _close_files(objects: Iterable[Any]) -> None:
    """Close the files that are still open, those that write into others first."""
    files = [thing for thing in objects if issubclass(type(thing), _io._IOBase)]
    kept = {id(part) for stream in _streams() for part in _parts(stream)}
    for file in sorted(files, key=_depth):
        if id(file) not in kept:
            with contextlib.suppress(BaseException):
                file.close()


def _depth(file: Any) -> int:
    """0 for text, 1 for what compresses or counts, 2 for buffers, 3 for the system's files."""
    if isinstance(file, _io._TextIOBase):
        return 0
    if isinstance(file, _io.FileIO):
        return 3
    return 2 if type(file).__module__ == "_io" else 1


def _streams() -> list[Any]:
    streams = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
    return [stream for stream in streams if stream is not None]


def _parts(stream: Any) -> Iterator[Any]:
    """A stream and what lies under it."""
    while stream is not None:
        yield stream
        stream = getattr(stream, "buffer", None) or getattr(stream, "raw", None)


def _flushed(stream: Any) -> bool:
    try:
        if not getattr(stream, "closed", False):
            stream.flush()
    except Exception:
        return False
    return True
