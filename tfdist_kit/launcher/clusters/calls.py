"""Functions that a `LocalCluster` calls in its workers, and what comes back.

    caller: pack(fn, args) -> bytes -> worker: answer -> fn(*args) -> Returned | Raised -> caller

Functions of importable modules travel by name; lambdas, closures and those of ``__main__`` by
value, through cloudpickle.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfdist_kit._errors import ClusterError, UsageError
from tfdist_kit.launcher import failure
from tfdist_kit.launcher.clusters import exchange
from tfdist_kit.launcher.failure import Failure
from tfdist_kit.launcher.start import channel


@dataclass(frozen=True)
class Returned:
    """What a function returned, pickled."""

    value: bytes


@dataclass(frozen=True)
class Raised:
    """What a function raised.

    Attributes:
        failure: The exception as data.
        module: Of the exception's class.
        error: The exception pickled, or None if it cannot be.
    """

    failure: Failure
    module: str
    error: bytes | None


Answer = Returned | Raised
_MAIN = b"__main__"


def pack(fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
    """Turn a call into bytes.

    Raises:
        UsageError: It cannot be sent to another process.
    """
    if not callable(fn):
        raise UsageError(
            f"{fn!r} cannot be called",
            hint="give the function itself and its arguments: run(fn, 1, 2)",
        )
    call = (fn, tuple(args), dict(kwargs))
    try:
        packed = pickle.dumps(call)
    except Exception as error:
        return _by_value(call, str(error))
    if _MAIN in packed:  # by a name that means something else there
        return _by_value(call, "something in it is defined in __main__, which no worker runs")
    return packed


def _by_value(thing: Any, why: str) -> bytes:
    try:
        cloudpickle = importlib.import_module("cloudpickle")
    except ImportError:
        raise UsageError(
            f"the function or its arguments cannot be sent to the workers by name: {why}",
            hint="define it at the top of a module, or pip install 'tfdist-kit[cloudpickle]'",
        ) from None
    try:
        packed: bytes = cloudpickle.dumps(thing)
    except Exception as error:
        raise UsageError(
            f"the function or its arguments cannot be sent to the workers: {error}",
            hint="give what can be pickled: plain data, NumPy arrays, functions",
        ) from error
    return packed


def answer(fd: int) -> None:
    """Do what comes through a channel until it is closed: the caller's search path, then a call."""
    known: list[str] = []
    pid = os.getpid()
    with socket.socket(fileno=fd) as control:
        while (got := channel.receive(control)) is not None:
            if got[0]["path"] != known:
                known = got[0]["path"]
                sys.path[:] = known
            call = channel.receive_bytes(control)
            if call is None:
                return
            with exchange.open_for(control, got[0]["call"]):
                reply = pickle.dumps(_call(call[0]))
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):  # the function may have taken it away
                    stream.flush()
            if os.getpid() != pid:
                os._exit(0)  # a fork of the worker, which nobody has asked
            channel.send_bytes(control, reply)


def _call(packed: bytes) -> Answer:
    try:
        fn, args, kwargs = _unpacked(packed)
        return Returned(_pack_result(fn(*args, **kwargs)))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return _raised(error)


def _unpacked(packed: bytes) -> Any:
    try:
        return pickle.loads(packed)
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"the worker cannot find the function or an argument of it: {error}",
            hint="define it in a module that can be imported by its name, from sys.path",
        ) from error


def _pack_result(value: Any) -> bytes:
    try:
        return pickle.dumps(value)
    except Exception as error:
        try:
            return _by_value(value, str(error))
        except UsageError:
            raise UsageError(
                f"the function returned a {type(value).__name__}, which cannot be brought back: "
                f"{error}",
                hint="return plain data or NumPy arrays",
            ) from None


def _raised(error: BaseException) -> Raised:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    error.__traceback__ = trace
    told = failure.describe(error, exit_code=1, where="")
    error.__traceback__ = None
    return Raised(told, type(error).__module__, _pack_error(error))


def _pack_error(error: BaseException) -> bytes | None:
    """The exception pickled, if it comes back as it was."""
    try:
        packed = pickle.dumps(error)
    except Exception:
        if type(error).__module__ != "__main__":
            return None
        try:
            packed = _by_value(error, "")  # cloudpickle knows its own classes again
        except UsageError:
            return None
    try:
        same = type(pickle.loads(packed)) is type(error)
    except Exception:
        return None
    return packed if same else None


class RemoteTraceback(Exception):
    """Shows where an exception was raised in a worker; it is the `__cause__` of that exception.

    Attributes:
        rank: The worker.
        text: Its traceback.
    """

    def __init__(self, rank: int, text: str) -> None:
        super().__init__(rank, text)
        self.rank = rank
        self.text = text

    def __str__(self) -> str:
        return f"\n{self.text}"


def value_of(returned: Returned) -> Any:
    """What a function returned.

    Raises:
        ClusterError: This program cannot make it out.
    """
    try:
        return pickle.loads(returned.value)
    except Exception as error:
        raise ClusterError(
            f"what the function returned cannot be unpickled here: {type(error).__name__}: {error}",
            hint="return plain data or NumPy arrays",
        ) from error


def error_of(raised: Raised) -> BaseException | None:
    """The exception itself, if this process knows its class already and can go on after it."""
    if raised.error is None or raised.module not in sys.modules:
        return None
    try:
        error = pickle.loads(raised.error)
    except Exception:
        return None
    return error if isinstance(error, Exception) else None
