"""Joining a cluster without being deaf meanwhile.

    the program's action for SIGTERM -> kept in force while TensorFlow joins, and afterwards
    TFE_EnableCollectiveOps -> called without holding the interpreter's lock

While TensorFlow waits for absent workers, which may take minutes, it holds the interpreter's lock,
so that no other thread of the process runs, and from then on it catches SIGTERM itself, and ignores
it. So a process that waits for its peers could be ended by SIGKILL alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import signal
import threading
from collections.abc import Iterator
from typing import Any

from tfdist_kit.adapters._private import private

_CONTEXT = "tensorflow.python.eager.context"
_INTERNAL = "tensorflow.python._pywrap_tensorflow_internal"
_ERRORS = "tensorflow.python.framework.errors_impl"
_ENABLE = "TFE_EnableCollectiveOps"
_ACTION_BYTES = 512
"""More than any system's ``struct sigaction`` has."""
_LOOK_SECONDS = 0.01
_log = logging.getLogger(__name__)


@contextlib.contextmanager
def heeding_signals() -> Iterator[None]:
    """Join a cluster within this, and SIGTERM does what it would do in the program otherwise."""
    action = _action()
    over = threading.Event()
    with _without_the_lock():
        keeper = threading.Thread(target=_keep, args=(action, over), daemon=True)
        keeper.start()
        try:
            yield
        finally:
            over.set()
            keeper.join()
            _set(action)


def _keep(action: bytes, over: threading.Event) -> None:
    while not over.wait(_LOOK_SECONDS):
        if _action() != action:
            _set(action)


def _action() -> bytes:
    """What the system does with SIGTERM in this process at present."""
    found = ctypes.create_string_buffer(_ACTION_BYTES)
    ctypes.CDLL(None).sigaction(signal.SIGTERM, None, found)
    return found.raw


def _set(action: bytes) -> None:
    ctypes.CDLL(None).sigaction(signal.SIGTERM, ctypes.create_string_buffer(action), None)


@contextlib.contextmanager
def _without_the_lock() -> Iterator[None]:
    """Let TensorFlow's blocking function be called so that the interpreter runs on."""
    wrapper = private(_CONTEXT, "pywrap_tfe")
    original = private(_CONTEXT, "pywrap_tfe", _ENABLE)
    try:
        wrapper.TFE_EnableCollectiveOps = _Unlocked(original)
    except (OSError, AttributeError) as error:  # this build of TensorFlow keeps it to itself
        _log.info("the interpreter stands still while the cluster is joined: %s", error)
    try:
        yield
    finally:
        wrapper.TFE_EnableCollectiveOps = original


class _Unlocked:
    """TensorFlow's C function; what `ctypes` calls does not hold the lock."""

    def __init__(self, original: Any) -> None:
        library = ctypes.CDLL(private(_INTERNAL, "__file__"))
        self._enable = library.TFE_EnableCollectiveOps
        self._new_status = library.TF_NewStatus
        self._new_status.restype = ctypes.c_void_p
        self._code = library.TF_GetCode
        self._message = library.TF_Message
        self._message.restype = ctypes.c_char_p
        self._delete_status = library.TF_DeleteStatus
        self._original = original

    def __call__(self, context: Any, server_def: bytes) -> None:
        status = ctypes.c_void_p(self._new_status())
        try:
            length = ctypes.c_size_t(len(server_def))
            self._enable(_pointer(context), server_def, length, status)
            code = self._code(status)
            if code:
                message = self._message(status).decode("utf-8", "replace")
                raise _error(code, message)
        finally:
            self._delete_status(status)


def _pointer(capsule: Any) -> ctypes.c_void_p:
    """What a capsule of C's holds."""
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    name = api.PyCapsule_GetName(capsule)
    return ctypes.c_void_p(api.PyCapsule_GetPointer(capsule, name))


def _error(code: int, message: str) -> Exception:
    kind = private(_ERRORS, "exception_type_from_error_code")(code)
    error: Exception = kind(None, None, message)
    return error
