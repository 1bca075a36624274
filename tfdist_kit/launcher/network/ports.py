"""Ports that nobody else can take while a cluster lives, and who listens on them.

A held port is a socket that is bound and never listens. TensorFlow, which sets SO_REUSEADDR, can
bind the same port and listen on it; the kernel gives it to no other program that asks for a free
one.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterable
from pathlib import Path

_TCP_TABLES = ("net/tcp", "net/tcp6")
_LISTEN = "0A"


class HeldPorts:
    """`count` free TCP ports, held until ``close`` or the end of the ``with`` block.

    Attributes:
        numbers: The ports, in the order of the ranks.
    """

    def __init__(self, count: int) -> None:
        self._sockets = [_hold_one() for _ in range(count)]
        self.numbers = tuple(held.getsockname()[1] for held in self._sockets)

    def close(self) -> None:
        """Give the ports back."""
        for held in self._sockets:
            held.close()

    def __enter__(self) -> HeldPorts:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _hold_one() -> socket.socket:
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    held.bind(("", 0))  # before SO_REUSEADDR, so that no two holders are given the same port
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return held


def listening(wanted: Iterable[int], where: int | str = "self") -> frozenset[int] | None:
    """The ports of `wanted` on which a program listens.

    Args:
        wanted: The ports to look for.
        where: A process in the network to look at; this one by default.

    Returns:
        The ports, or None where the system does not tell (no ``/proc``).
    """
    ports = frozenset(wanted)
    tables = []
    for table in _TCP_TABLES:
        with contextlib.suppress(OSError):  # or the process has just ended
            tables.append(Path(f"/proc/{where}/{table}").read_text())
    if not tables:
        return None
    rows = (row.split() for table in tables for row in table.splitlines()[1:])
    open_ports = {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == _LISTEN}
    return ports & open_ports
