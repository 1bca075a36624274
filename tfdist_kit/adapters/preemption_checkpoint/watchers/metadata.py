"""Requests to a metadata server, all those of one look under one deadline.

    Client(seconds) -> get, put -> a connection of its own, straight to the server -> Answer
                    -> abort()      from another thread, when the time is over

Proxies of the environment are never used: a metadata server answers only its own machine. No
redirect is followed, and of a long body only the beginning is read.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import json
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tfdist_kit._errors import UsageError

LIMIT = 64 * 1024


class Unexpected(Exception):
    """A server answered something that no metadata server of its kind does."""


@dataclass(frozen=True)
class Answer:
    """What a server said.

    Attributes:
        url: What was asked for, without the query, which may hold what no log should.
        status: The HTTP status.
        headers: The header lines, by their names in lower case.
        body: The first bytes of the body, `LIMIT` at most.
    """

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body as text, without white space around it."""
        return self.body.decode("utf-8", errors="replace").strip()

    def expect(self, *statuses: int) -> Answer:
        """This answer, if its status is one of these.

        Raises:
            Unexpected: It is another one.
        """
        if self.status not in statuses:
            raise Unexpected(f"status {self.status} from {self.url}")
        return self

    def json(self) -> dict[str, Any]:
        """The body as a JSON object.

        Raises:
            Unexpected: It is something else.
        """
        try:
            value = json.loads(self.body)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise Unexpected(f"no JSON object from {self.url}")
        return value


class Client:
    """Makes the requests of one look, one after the other.

    Args:
        seconds: How long all of them together may take. Name look-ups and header lines that
            trickle in know no deadline: whoever waits calls `abort()`, and waits no longer.
    """

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds
        self._socket: socket.socket | None = None

    def get(self, url: str, headers: Mapping[str, str] | None = None, limit: int = LIMIT) -> Answer:
        """Ask for `url` and read at most `limit` bytes of its body."""
        return self._request("GET", url, headers or {}, limit)

    def put(self, url: str, headers: Mapping[str, str]) -> Answer:
        """Send an empty PUT to `url`."""
        return self._request("PUT", url, headers, LIMIT)

    def abort(self) -> None:
        """End the request that is being made, once the time is over; no other one is made."""
        held = self._socket
        if held is not None:
            with contextlib.suppress(OSError):  # closed meanwhile
                held.shutdown(socket.SHUT_RDWR)

    def _request(self, method: str, url: str, headers: Mapping[str, str], limit: int) -> Answer:
        connection = self._connection(url)
        try:
            connection.connect()
            self._socket = connection.sock
            self._left()  # who aborts before this line finds no socket
            connection.request(method, _target(url), headers={**headers, "Connection": "close"})
            with connection.getresponse() as response:
                found = {name.lower(): value for name, value in response.getheaders()}
                body = response.read(limit) if limit else b""
                self._left()  # an answer that an abort has cut is none
                return Answer(url.partition("?")[0], response.status, found, body)
        finally:
            self._socket = None
            connection.close()

    def _connection(self, url: str) -> http.client.HTTPConnection:
        parts, left = urlsplit(url), self._left()
        host = parts.hostname or ""
        if parts.scheme == "https":
            return http.client.HTTPSConnection(host, parts.port, timeout=left, context=_trust())
        return http.client.HTTPConnection(host, parts.port, timeout=left)

    def _left(self) -> float:
        left = self._ends - time.monotonic()
        if left <= 0:
            raise TimeoutError("no time is left")
        return left


@functools.cache
def _trust() -> ssl.SSLContext:
    return ssl.create_default_context()  # reads all certificates, which takes its time


def checked_url(url: str, what: str) -> str:
    """`url`, if it can be asked for.

    Args:
        url: What a user gave.
        what: Where it was given, for the message.

    Raises:
        UsageError: It cannot be asked for.
    """
    if not isinstance(url, str):
        raise UsageError(f"{what} is {url!r}", hint="give a URL as text")
    if not _is_url(url):
        raise UsageError(
            f"{what} is {url!r}, which is no URL of a server",
            hint="write it whole, such as http://127.0.0.1:8080/notice; names and passwords "
            "belong into headers",
        )
    return url


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    plain = all(" " < character < "\x7f" for character in url)
    host = parts.hostname and "@" not in parts.netloc
    return bool(plain and host and parts.scheme in ("http", "https"))


def _target(url: str) -> str:
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
