"""A network of the cluster's own: only loopback, nobody outside can connect, no port is taken.

    make: helper process -> unshare -> lo up -> descriptors -> launcher
    enter: descriptors -> setns -> worker

The launcher never enters it: a short-lived helper makes it and hands over descriptors that keep it
alive, so that it vanishes with the last process that holds one. Where a network namespace needs a
user namespace, that one maps the user to himself, and whoever enters keeps the rights that he had.

This file is also the helper's program, and is then run by itself: it knows only Python's library.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

FIRST_PORT = 20_000  # below those that the kernel gives to clients
_NEWUSER, _NEWNET = 0x10000000, 0x40000000
_SIOCSIFFLAGS, _IFF_UP, _IFF_RUNNING = 0x8914, 0x1, 0x40
_CAPABILITY_VERSION = 0x20080522
_HELPER_TIMEOUT = 10.0
_MESSAGE = 4096
_SWITCHES = {
    "user.max_net_namespaces": "0",
    "user.max_user_namespaces": "0",
    "kernel.unprivileged_userns_clone": "0",
    "kernel.apparmor_restrict_unprivileged_userns": "1",
}


class UnavailableError(Exception):
    """This system gives us no network namespace; the text says why."""


class Namespace:
    """A private network, alive for as long as it is open or somebody is in it.

    Args:
        fds: Its descriptors, in the order in which `enter` takes them.
    """

    def __init__(self, fds: Sequence[int]) -> None:
        self.fds = tuple(fds)

    def close(self) -> None:
        """Give it up."""
        for fd in self.fds:
            os.close(fd)
        self.fds = ()

    def __enter__(self) -> Namespace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def make() -> Namespace:
    """Make a private network; this process stays where it is.

    Raises:
        UnavailableError: The system refuses, or has no such thing.
    """
    if sys.platform != "linux":
        raise UnavailableError("only Linux has network namespaces")
    try:
        text, fds = _ask_helper()
    except OSError as error:
        raise UnavailableError(f"the helper process failed: {error}") from error
    if not fds:
        raise UnavailableError(text.decode() or "the helper process was ended")
    return Namespace(fds)


def ports(count: int) -> tuple[int, ...]:
    """The ports of a cluster in a private network, in rank order: there all of them are free."""
    return tuple(range(FIRST_PORT, FIRST_PORT + count))


def _ask_helper() -> tuple[bytes, list[int]]:
    """What the helper said, and the descriptors that it sent along."""
    import subprocess  # the helper itself, which has to be quick, does without

    command = [sys.executable, "-I", "-S", __file__]
    quiet = subprocess.DEVNULL
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            helper = subprocess.Popen(command, stdin=theirs.fileno(), stdout=quiet, stderr=quiet)
        with helper:
            try:
                ours.settimeout(_HELPER_TIMEOUT)
                text, fds, _, _ = socket.recv_fds(ours, _MESSAGE, 2)
            finally:
                helper.kill()
    for fd in fds:
        os.set_inheritable(fd, False)
    return text, fds


def enter(fds: Sequence[int]) -> None:
    """Move this process into the network of `fds`, and close them.

    Args:
        fds: `Namespace.fds`, inherited.

    Raises:
        OSError: The system refuses, as it does to a process with several threads.
    """
    libc = _libc()
    with_user_namespace = len(fds) > 1
    rights = _capabilities(libc)
    for fd in fds:
        _check(libc.setns(fd, 0), "setns")
        os.close(fd)
    if with_user_namespace:  # whoever comes into one can do everything in it
        _check(libc.capset(*rights), "capset")


def _capabilities(libc: ctypes.CDLL) -> tuple[ctypes.Array[ctypes.c_uint32], ...]:
    """What this process may do, as `capset` takes it: a header, and twice three sets of bits."""
    header, sets = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    _check(libc.capget(header, sets), "capget")
    return header, sets


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int, call: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")


# The helper


def _make_here() -> tuple[str, ...]:
    """Move this process into a new network; the names under /proc/self/ns of what is new."""
    libc, uid, gid = _libc(), os.geteuid(), os.getegid()
    try:
        _check(libc.unshare(_NEWNET), "unshare")
    except PermissionError:
        _check(libc.unshare(_NEWUSER | _NEWNET), "unshare")
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
        return ("user", "net")
    return ("net",)


def _set_loopback_up() -> None:
    request = struct.pack("16sh14x", b"lo", _IFF_UP | _IFF_RUNNING)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, request)


def why_not(error: OSError, settings: Path = Path("/proc/sys")) -> str:
    """Say in a line why the system refuses a namespace.

    Args:
        error: What it said.
        settings: Where the kernel's settings are read, some of which forbid namespaces.
    """
    for name, forbids in _SWITCHES.items():
        path = settings / name.replace(".", "/")
        if path.exists() and path.read_text().strip() == forbids:
            return f"{error.strerror} ({name} is {forbids})"
    refused = error.errno in (errno.EPERM, errno.EACCES)
    return f"{error.strerror} (a container's rules, perhaps)" if refused else str(error.strerror)


def _help(launcher: socket.socket) -> None:
    try:
        names = _make_here()
        _set_loopback_up()
        fds = [os.open(f"/proc/self/ns/{name}", os.O_RDONLY) for name in names]
    except OSError as error:
        launcher.sendall(why_not(error).encode())
    else:
        socket.send_fds(launcher, [b"made"], fds)


if __name__ == "__main__":
    with socket.socket(fileno=0) as standard_input:
        _help(standard_input)
