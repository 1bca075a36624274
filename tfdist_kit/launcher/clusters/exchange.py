"""Values that the workers of one call give each other while it runs, through their caller.

    exchange(kind, value) -> Offer -> caller: has everybody offered? -> Exchanged | NotExchanged

No network and no TensorFlow takes part, so that it works before a strategy is made and after a
collective has failed, and nobody waits for a worker that will not come: the caller knows.
"""

from __future__ import annotations

import contextlib
import pickle
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tfdist_kit import _frames
from tfdist_kit._errors import ExchangeError, UsageError
from tfdist_kit.launcher.start import channel


@dataclass(frozen=True)
class Offer:
    """What a worker gives to its peers.

    Attributes:
        call: The call that it belongs to.
        kind: What it does, such as ``gather``; all must do the same.
        place: ``file:line`` of the call.
        value: Pickled.
    """

    call: int
    kind: str
    place: str
    value: bytes


@dataclass(frozen=True)
class Exchanged:
    """What all workers of the call gave, in rank order, pickled."""

    values: tuple[bytes, ...]


@dataclass(frozen=True)
class NotExchanged:
    """Why there was no exchange.

    Attributes:
        reason: In words.
        aftermath: Whether it is only the consequence of a peer's failure.
    """

    reason: str
    aftermath: bool


_open: tuple[socket.socket, int] | None = None
_is_worker = False


@contextlib.contextmanager
def open_for(control: socket.socket, call: int) -> Iterator[None]:
    """While a call runs here, have its offers go through the channel by which it came.

    Args:
        control: The channel.
        call: The number of the call.
    """
    global _open, _is_worker
    _open, _is_worker = (control, call), True
    try:
        yield
    finally:
        _open = None


def exchange(kind: str, value: Any) -> list[Any]:
    """Give `value` to every worker of the call, and get theirs.

    Args:
        kind: What it is for; all workers must come with the same.
        value: Anything that can be pickled.

    Returns:
        The values in rank order; outside of a `LocalCluster`, the caller's own alone.

    Raises:
        ExchangeError: A worker has ended or failed without taking part, or came for another kind.
        UsageError: The value cannot be sent, or this is not the thread of the call.
    """
    __tracebackhide__ = True  # pytest shows who called
    packed = _packed(value)
    if not _is_worker:
        return [value]
    if _open is None or threading.current_thread() is not threading.main_thread():
        raise UsageError(
            f"{kind}() was called by a thread of its own, or after the call had ended",
            hint="call it from the thread that the call runs in",
        )
    control, call = _open
    channel.send_bytes(control, pickle.dumps(Offer(call, kind, _place(), packed)))
    got = channel.receive_bytes(control)
    if got is None:
        raise ExchangeError(f"the cluster was closed during {kind}()", aftermath=True)
    reply: Exchanged | NotExchanged = pickle.loads(got[0])
    if isinstance(reply, NotExchanged):
        raise ExchangeError(
            reply.reason,
            hint="every worker has to make the same calls in the same order",
            aftermath=reply.aftermath,
        )
    return [pickle.loads(part) for part in reply.values]


def _packed(value: Any) -> bytes:
    try:
        return pickle.dumps(value)
    except Exception as error:
        raise UsageError(
            f"a {type(value).__name__} cannot be given to the other workers: {error}",
            hint="give plain data or NumPy arrays",
        ) from error


def _place() -> str:
    frame = sys._getframe(1)
    while frame.f_back is not None and not _frames.is_users(frame):
        frame = frame.f_back
    return _frames.place(frame.f_code.co_filename, frame.f_lineno)


def verdict(
    offers: Mapping[int, Offer], gone: Mapping[int, str], names: Mapping[int, str]
) -> Exchanged | NotExchanged | None:
    """What is to be answered to those who have offered; None while others may still come.

    Args:
        offers: Who has offered what, by rank.
        gone: Whose call is over and how (``returned``, ``raised`` or ``died``), the earliest first.
        names: All workers of the call, by rank.
    """
    for rank, how in gone.items():
        first = next(iter(offers.values()))
        reason = f"{names[rank]} {_GONE[how]} without taking part in {first.kind}() at "
        return NotExchanged(reason + first.place, aftermath=how != "returned")
    if len(offers) < len(names):
        return None
    if len({offer.kind for offer in offers.values()}) > 1:
        calls = (f"{names[rank]} {offers[rank].kind}() at {offers[rank].place}" for rank in names)
        return NotExchanged(f"the workers make different calls: {'; '.join(calls)}", False)
    return Exchanged(tuple(offers[rank].value for rank in sorted(offers)))


_GONE = {"returned": "has ended", "raised": "has failed", "died": "has died"}
