"""Messages between two processes of this machine, through an inherited pair of sockets.

A message is JSON, or bytes as they are, behind its length; descriptors may travel with it.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Sequence
from typing import Any

_LENGTH = struct.Struct("!Q")
_MOST_FDS = 32


def send(control: socket.socket, message: Any, fds: Sequence[int] = ()) -> None:
    """Send one JSON message, and copies of descriptors."""
    send_bytes(control, json.dumps(message).encode(), fds)


def send_bytes(control: socket.socket, data: bytes, fds: Sequence[int] = ()) -> None:
    """Send one message."""
    length = _LENGTH.pack(len(data))
    if fds:
        socket.send_fds(control, [length], list(fds))
    else:
        control.sendall(length)
    control.sendall(data)


def receive(control: socket.socket) -> tuple[Any, list[int]] | None:
    """The next JSON message and its descriptors; None when the other side has gone."""
    got = receive_bytes(control)
    return None if got is None else (json.loads(got[0]), got[1])


def receive_bytes(control: socket.socket) -> tuple[bytes, list[int]] | None:
    """The next message and its descriptors; None when the other side has gone."""
    try:
        flags = socket.MSG_WAITALL | getattr(socket, "MSG_CMSG_CLOEXEC", 0)
        length, fds, _, _ = socket.recv_fds(control, _LENGTH.size, _MOST_FDS, flags)
        if len(length) < _LENGTH.size:
            return None
        data = _exactly(control, *_LENGTH.unpack(length))
    except ConnectionError:
        return None
    return None if data is None else (data, fds)


def _exactly(control: socket.socket, count: int) -> bytes | None:
    data = bytearray()
    while len(data) < count:
        part = control.recv(min(count - len(data), 1 << 20))
        if not part:
            return None
        data += part
    return bytes(data)
