"""Rules about the cluster's addresses, without asking the network."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from tfdist_kit.tf_config.address import (
    is_any_interface,
    is_ipv6,
    is_loopback,
    same_place,
    split_address,
)
from tfdist_kit.tf_config.document import Document, Entry
from tfdist_kit.tf_config.findings import Finding, Mistake, mistake

_HANGS = "nobody can resolve it: every task that needs it hangs, without a word"
_NO_PORT = "TensorFlow raises InvalidArgumentError 'Could not parse port for local server'"
_LAST_PORT = 65535

NOT_TEXT = mistake(
    "TFC030",
    "an address is not a text",
    why="TensorFlow raises TypeError 'Task address ... must be bytes or unicode'",
    cure='write the address as a text: "host:2222"',
)
WHITESPACE = mistake(
    "TFC031",
    "there is whitespace or an unprintable character in an address",
    why=f"it becomes part of the host's name, and {_HANGS}",
    cure="remove it",
)
SEVERAL = mistake(
    "TFC032",
    "there are several addresses in one text",
    why="TensorFlow counts it as one task, and raises an error about the port or hangs",
    cure='write one text for each: ["host0:2222", "host1:2222"]',
)
SCHEME = mistake(
    "TFC033",
    "an address has a scheme",
    why="TensorFlow raises InvalidArgumentError 'Could not interpret ... as a host-port pair.'",
    cure="remove what stands before the host: write host:port",
)
USER = mistake(
    "TFC034",
    "an address has a user name",
    why=f"it becomes part of the host's name, and {_HANGS}",
    cure="remove what stands before the host: write host:port",
)
PATH = mistake(
    "TFC035",
    "an address has a path",
    why=_NO_PORT,
    cure="remove what stands behind the port: write host:port",
)
BRACKETS = mistake(
    "TFC036",
    "the brackets of an address hold no IPv6 address",
    why=f"the brackets become part of the host's name, and {_HANGS}",
    cure="use brackets for IPv6 addresses only: [::1]:2222",
)
COLONS = mistake(
    "TFC037",
    "an address has several colons; an IPv6 address needs brackets",
    why="TensorFlow cannot tell the port from the rest: every task that needs it hangs, without "
    "a word",
    cure="write an IPv6 address in brackets, for example [::1]:2222; any other address as "
    "host:port",
)
NO_PORT = mistake(
    "TFC038",
    "an address has no port",
    why=_NO_PORT,
    cure="add the port: host:2222",
)
NO_HOST = mistake(
    "TFC039",
    "an address has no host",
    why="a single worker starts; in a larger cluster nobody can connect to it, and all tasks hang",
    cure="add the host's name as the other tasks know it: host:2222",
)
PORT_NOT_A_NUMBER = mistake(
    "TFC040",
    "a port is not a number",
    why=_NO_PORT,
    cure="write a port from 1 to 65535 in digits",
)
PORT_RANGE = mistake(
    "TFC041",
    "a port is not between 1 and 65535",
    why="TensorFlow does not check it: some numbers are cut to 16 bits (99999 listens on 34463), "
    "others raise an error about the cluster or the port",
    cure="write a port from 1 to 65535",
)
PORT_ZERO = mistake(
    "TFC042",
    "a port is 0",
    why="TensorFlow chooses any free port, which the other tasks cannot know: all of them hang",
    cure="choose a port from 1 to 65535",
)
DUPLICATE = mistake(
    "TFC043",
    "two tasks have the same address",
    why="TensorFlow listens on all interfaces of a machine: the second task raises UnknownError "
    "'Could not start gRPC server', the others hang",
    cure="give each task on one machine its own port; $first has this address already",
)
ANY_INTERFACE = mistake(
    "TFC044",
    "an address is 0.0.0.0, which says where to listen",
    severity="warning",
    why="tasks on other machines connect to themselves when they use it, and hang; it works on a "
    "single machine only",
    cure="write the host's name or address as the other tasks know it",
)
MIXED_LOOPBACK = mistake(
    "TFC045",
    "some addresses are of the loopback interface and others are not",
    severity="warning",
    why="on every other machine $loopback is that machine itself: its tasks wait for ever",
    cure="write the machine's name instead of $loopback, or use loopback addresses only",
)


def _bad_brackets(address: str) -> bool:
    if not re.search(r"[\[\]]", address):
        return False
    inside = re.fullmatch(r"\[([^\[\]]*)\](:.*)?", address)
    return inside is None or not is_ipv6(inside[1])


def _has_no_port(address: str) -> bool:
    return ":" not in address or address.endswith((":", "]"))


def _port(address: str) -> str:
    return address.rpartition(":")[2]


def _is_out_of_range(address: str) -> bool:
    digits = _port(address).lstrip("0")
    # A number too long for Python to read is too large as well.
    return digits.startswith("-") or len(digits) > 5 or int(digits or 0) > _LAST_PORT


_FLAWS: tuple[tuple[Mistake, Callable[[str], bool]], ...] = (
    (WHITESPACE, lambda address: not address.isprintable() or " " in address),
    (SEVERAL, lambda address: "," in address or ";" in address),
    (SCHEME, lambda address: "://" in address),
    (USER, lambda address: "@" in address),
    (PATH, lambda address: re.search(r"[/?#]", address) is not None),
    (BRACKETS, _bad_brackets),
    (COLONS, lambda address: address.count(":") > 1 and not address.startswith("[")),
    (NO_PORT, _has_no_port),
    (NO_HOST, lambda address: address.startswith(":")),
    (PORT_NOT_A_NUMBER, lambda address: re.fullmatch(r"-?[0-9]+", _port(address)) is None),
    (PORT_RANGE, _is_out_of_range),
)
"""What can be wrong with one address; only the first is told, for others may follow from it."""


def flaw(address: object) -> Mistake | None:
    """What is wrong with an address by itself."""
    if not isinstance(address, str):
        return NOT_TEXT
    return next((mistake for mistake, applies in _FLAWS if applies(address)), None)


def sound_entries(document: Document) -> list[Entry]:
    """The entries whose addresses can be taken apart."""
    return [entry for entry in document.entries if flaw(entry.address) is None]


def check_form(document: Document) -> Iterator[Finding]:
    """Whether each address is ``host:port``."""
    for entry in document.entries:
        if (found := flaw(entry.address)) is not None:
            yield found.at(entry.where, entry.address)


def check_port_zero(document: Document) -> Iterator[Finding]:
    """Whether the other tasks can know the port; a single task needs nobody to know it."""
    if len(document.entries) < 2:
        return
    for entry in sound_entries(document):
        if split_address(entry.address)[1] == 0:
            yield PORT_ZERO.at(entry.where, entry.address)


def check_duplicates(document: Document) -> Iterator[Finding]:
    """Whether each task has an address of its own."""
    seen: dict[tuple[str, int], Entry] = {}
    for entry in sound_entries(document):
        place = same_place(entry.address)
        if place[1] == 0:
            continue
        if place in seen:
            yield DUPLICATE.at(entry.where, entry.address, first=seen[place].where)
        seen.setdefault(place, entry)


def check_interfaces(document: Document) -> Iterator[Finding]:
    """Whether the addresses mean the same machines everywhere."""
    by_kind: dict[bool, Entry] = {}
    for entry in sound_entries(document):
        host, _ = split_address(entry.address)
        if is_any_interface(host):
            yield ANY_INTERFACE.at(entry.where, entry.address)
        else:
            by_kind.setdefault(is_loopback(host), entry)
    if len(by_kind) > 1:
        loopback = by_kind[True]
        name = split_address(loopback.address)[0]
        yield MIXED_LOOPBACK.at(loopback.where, loopback.address, loopback=name)
