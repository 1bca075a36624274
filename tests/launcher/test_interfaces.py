"""The addresses of this machine, and the warning where the internet may reach the cluster."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from tests.commands import script
from tests.launcher.test_netns import in_a_fork, needs_namespaces
from tfdist_kit.launcher.network import interfaces, netns


def test_the_addresses_are_those_that_the_kernel_lists() -> None:
    found = interfaces.addresses()
    names = {name for _, name in socket.if_nameindex()}
    assert ("lo", "127.0.0.1") in found
    assert {name.partition(":")[0] for name, _ in found} <= names
    listed = Path("/proc/net/if_inet6").read_text().split()[::6]
    in_full = {socket.inet_pton(socket.AF_INET6, text).hex() for _, text in found if ":" in text}
    assert in_full <= set(listed)


PUBLIC = """\
import fcntl, socket, struct
address = struct.pack("16sH2x4s8x", b"lo:1", socket.AF_INET, socket.inet_aton("8.8.4.4"))
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
    fcntl.ioctl(any_socket, 0x8916, address)
from tfdist_kit.cli.main import main, parse
main(parse(["tfdist", "run", {options} "--dry-run", "train.py"]))
"""


@needs_namespaces
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give an address to an interface")
@pytest.mark.parametrize("isolate", [False, True])
def test_a_public_address_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, isolate: bool
) -> None:
    script(tmp_path, "")
    monkeypatch.chdir(tmp_path)
    code = PUBLIC.replace("{options}", "'--isolate'," if isolate else "")
    with netns.make() as private:
        told = json.loads(in_a_fork(private, code))["notices"]
    expected = (
        "lo:1 has the public address 8.8.4.4: TensorFlow's server listens on all interfaces and "
        "runs whatever graph it is sent; --isolate keeps others out"
    )
    assert told == ([] if isolate else [expected])


@pytest.mark.parametrize(
    ("address", "is_public"),
    [
        ("127.0.0.1", False),
        ("10.0.0.1", False),
        ("100.64.0.1", False),
        ("fe80::1", False),
        ("fd00::1", False),
        ("34.117.59.81", True),
        ("2a00:1450::1", True),
    ],
)
def test_what_is_public(monkeypatch: pytest.MonkeyPatch, address: str, is_public: bool) -> None:
    monkeypatch.setattr(interfaces, "addresses", lambda: [("eth0", address)])
    assert interfaces.public() == ([("eth0", address)] if is_public else [])
