"""The addresses at which this machine can be reached, asked of the C library (getifaddrs)."""

from __future__ import annotations

import ctypes
import ipaddress
import socket
import sys
from collections.abc import Iterator

_IFF_UP = 0x1
_ADDRESS_AT = {socket.AF_INET: (4, 4), socket.AF_INET6: (8, 16)}


class _Entry(ctypes.Structure):
    """The start of the C library's ``struct ifaddrs``; the rest is not needed."""

    _fields_ = [
        ("next", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("flags", ctypes.c_uint),
        ("address", ctypes.c_void_p),
    ]


def addresses() -> list[tuple[str, str]]:
    """Every interface that is up, with each of its addresses; none where they cannot be had."""
    libc = ctypes.CDLL(None)
    first = ctypes.c_void_p()
    if libc.getifaddrs(ctypes.byref(first)) != 0:
        return []
    try:
        return list(_walk(first.value))
    finally:
        libc.freeifaddrs(first)


def public() -> list[tuple[str, str]]:
    """Those of `addresses` that can be reached from the internet, unless a firewall forbids."""
    return [(name, text) for name, text in addresses() if ipaddress.ip_address(text).is_global]


def _walk(at: int | None) -> Iterator[tuple[str, str]]:
    while at:
        entry = _Entry.from_address(at)
        if entry.flags & _IFF_UP and entry.address and (text := _as_text(entry.address)):
            yield entry.name.decode(), text
        at = entry.next


def _as_text(address: int) -> str | None:
    """The IP address in a ``struct sockaddr``; None for an address of another kind."""
    family = int.from_bytes(ctypes.string_at(address, 2), sys.byteorder)
    if sys.platform == "darwin":
        family = ctypes.string_at(address, 2)[1]
    if family not in _ADDRESS_AT:
        return None
    offset, size = _ADDRESS_AT[socket.AddressFamily(family)]
    return str(ipaddress.ip_address(ctypes.string_at(address + offset, size)))
