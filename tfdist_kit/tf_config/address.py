"""``host:port`` as data: taken apart, put together, compared.

Nothing here asks the network: two names of one machine are only known to be the same where
every machine agrees on them (``localhost``, ``127.0.0.1``, ``::1``).
"""

from __future__ import annotations

import ipaddress


def split_address(text: str) -> tuple[str, int]:
    """Take ``host:port`` apart; the brackets of an IPv6 address are removed.

    Raises:
        ValueError: There is no port, or it is not a number.
    """
    host, _, port = text.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


def join_address(host: str, port: int) -> str:
    """Put ``host:port`` together; an IPv6 address gets its brackets."""
    bare = ":" in host and not host.startswith("[")
    return f"[{host}]:{port}" if bare else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether `host` is this machine to itself, on every machine."""
    address = _ip(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def is_any_interface(host: str) -> bool:
    """Whether `host` is ``0.0.0.0`` or ``::``: where to listen, not where to connect to."""
    address = _ip(host)
    return address is not None and address.is_unspecified


def is_ipv6(host: str) -> bool:
    """Whether `host` is a literal IPv6 address, without brackets."""
    return isinstance(_ip(host), ipaddress.IPv6Address)


def same_place(text: str) -> tuple[str, int]:
    """A key that is equal for two addresses that surely are the same server."""
    host, port = split_address(text)
    if is_loopback(host) or is_any_interface(host):
        return "localhost", port
    return str(_ip(host) or host.lower().rstrip(".")), port


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
