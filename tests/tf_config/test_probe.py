from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tfdist_kit.tf_config import (
    accepts_connections,
    can_bind,
    is_own_address,
    join_address,
    resolves,
    split_address,
)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def port_of(server: socket.socket) -> int:
    port: int = server.getsockname()[1]
    return port


@pytest.mark.parametrize(
    ("address", "host", "port"), [("a.b:1", "a.b", 1), ("[::1]:2222", "::1", 2222)]
)
def test_addresses_are_taken_apart_and_put_together(address: str, host: str, port: int) -> None:
    assert split_address(address) == (host, port)
    assert join_address(host, port) == address


def test_brackets_are_added_once() -> None:
    assert join_address("[::1]", 1) == "[::1]:1"


@pytest.mark.parametrize("address", ["a", "a:", "a:x"])
def test_an_address_without_a_port_cannot_be_taken_apart(address: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        split_address(address)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_this_machine(host: str) -> None:
    assert resolves(host) is None
    assert is_own_address(host) is None


def test_another_machine() -> None:
    assert resolves("192.0.2.1") is None
    assert is_own_address("192.0.2.1") == "this machine does not have 192.0.2.1"


@pytest.mark.parametrize("host", ["a..b", "x" * 300, "a\0b"])
def test_a_name_that_no_host_can_have(host: str) -> None:
    assert resolves(host)
    assert is_own_address(host)
    assert accepts_connections(f"{host}:1")


def test_an_unknown_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*args: Any, **kwargs: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert resolves("nohost.invalid") == "Name or service not known"


def test_a_name_service_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: released.wait(10) and [])
    start = time.monotonic()
    try:
        assert resolves("slow.example", timeout=0.1) == "no answer within 0.1 s"
        assert time.monotonic() - start < 5
    finally:
        released.set()
        for thread in threading.enumerate():
            if thread.name.startswith("resolve "):
                thread.join()


def test_a_port_that_is_free_stays_free(listener: socket.socket) -> None:
    port = port_of(listener)
    assert can_bind(port) == "Address already in use"
    listener.close()
    assert can_bind(port) is None
    assert can_bind(port) is None


def test_a_port_that_is_held_without_listening_can_be_bound() -> None:
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("", 0))
        assert can_bind(port_of(held)) is None


def test_a_port_that_cannot_be() -> None:
    assert can_bind(70000)


def test_who_accepts_connections(listener: socket.socket) -> None:
    address = f"127.0.0.1:{port_of(listener)}"
    assert accepts_connections(address) is None
    listener.close()
    assert accepts_connections(address) == "Connection refused"
