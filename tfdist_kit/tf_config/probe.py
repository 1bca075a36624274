"""Questions to the network, each bounded in time and each asked only when called.

Every function returns None where the answer is yes, else the reason why not, in a few words. They
are handed to the lint and used by the adapters. Nothing here sends anything to another machine,
except `accepts_connections`, which connects and says nothing.
"""

from __future__ import annotations

import queue
import socket
import threading
import time

from tfdist_kit.tf_config.address import split_address

_SocketAddress = tuple[socket.AddressFamily, tuple[object, ...]]


def resolves(host: str, timeout: float = 2.0) -> str | None:
    """Whether this machine knows the addresses of a host.

    Args:
        host: A name or an address, without port and brackets.
        timeout: Seconds to wait for the name service.
    """
    found = _look_up(host, timeout)
    return found if isinstance(found, str) else None


def can_bind(port: int) -> str | None:
    """Whether TensorFlow's server could listen on a port now; nothing is left behind.

    TensorFlow listens on all interfaces with SO_REUSEADDR, so a port on which another program
    listens on one interface is taken as well.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind(("", port))
        except (OSError, OverflowError) as error:
            return _reason(error)
    return None


def is_own_address(host: str, timeout: float = 2.0) -> str | None:
    """Whether a host is this machine: one of its addresses can be bound here.

    Args:
        host: A name or an address, without port and brackets.
        timeout: Seconds to wait for the name service.
    """
    found = _look_up(host, timeout)
    if isinstance(found, str):
        return found
    if any(_is_local(family, address) for family, address in found):
        return None
    addresses = ", ".join(sorted({str(address[0]) for _, address in found}))
    return f"this machine does not have {addresses}"


def accepts_connections(address: str, timeout: float = 2.0) -> str | None:
    """Whether something listens at ``host:port``.

    Args:
        address: The address, as it is written in TF_CONFIG.
        timeout: Seconds to wait, all in all.
    """
    deadline = time.monotonic() + timeout
    host, port = split_address(address)
    found = _look_up(host, timeout)
    if isinstance(found, str):
        return found
    reason = ""
    for family, place in found:
        with socket.socket(family, socket.SOCK_STREAM) as client:
            # A timeout of 0 would mean "do not wait" to the socket, and is told as an error.
            client.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                client.connect((place[0], port, *place[2:]))
            except (OSError, OverflowError) as error:
                reason = _reason(error)
            else:
                return None
    return reason


def _look_up(host: str, timeout: float) -> list[_SocketAddress] | str:
    """The addresses of a host, or why there are none.

    The name service cannot be told to hurry, so it is asked in a thread that is left behind when
    the time is up.
    """
    answers: queue.SimpleQueue[list[_SocketAddress] | str] = queue.SimpleQueue()

    def ask() -> None:
        try:
            infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        # A name that cannot be encoded is a ValueError.
        except (OSError, ValueError) as error:
            answers.put(_reason(error))
        else:
            answers.put([(info[0], info[4]) for info in infos])

    threading.Thread(target=ask, name=f"resolve {host}", daemon=True).start()
    try:
        return answers.get(timeout=timeout)
    except queue.Empty:
        return f"no answer within {timeout:g} s"


def _is_local(family: socket.AddressFamily, address: tuple[object, ...]) -> bool:
    # A datagram socket listens to nobody, and its ports are not TensorFlow's.
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address[0], 0, *address[2:]))
        except OSError:
            return False
    return True


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)
