"""A local HTTP server that answers as it is told: well, slowly, wrongly, or not at all."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_NUMBERS = itertools.count()


@dataclass(frozen=True)
class Request:
    """What a client has asked for."""

    method: str
    path: str
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Reply:
    """What a client is to get.

    Attributes:
        fault: How the answer is spoilt: `closed` (before a byte), `silent` (nothing, for ever),
            `cut` (half of the body), `garbage` (no HTTP, something else each time), `huge` (an
            endless body), `drip` (a byte of a header now and then), `drip body`, `continue`
            (endless 100s).
    """

    body: str = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    fault: str = ""


class Server:
    """A running server.

    Attributes:
        url: Where it is, without a path.
        answer: Called for each request, at any time.
        requests: All of them, so far.
    """

    def __init__(self, answer: Callable[[Request], Reply]) -> None:
        self.answer = answer
        self.requests: list[Request] = []
        self.closing = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler(self))
        self._http.daemon_threads = False
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,))
        self.host = f"127.0.0.1:{self._http.server_address[1]}"
        self.url = f"http://{self.host}"
        self._thread.start()

    def close(self) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            request = Request(self.command, self.path, dict(self.headers))
            server.requests.append(request)
            with contextlib.suppress(OSError):
                send(self, server.answer(request), server.closing)

        do_PUT = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


def send(to: BaseHTTPRequestHandler, reply: Reply, closing: threading.Event) -> None:
    """Write the answer; what would last for ever ends when the client or the server does."""
    if reply.fault in FAULTS:
        FAULTS[reply.fault](to, reply, closing)
        return
    body = reply.body.encode()
    head(to, reply, len(body))
    to.wfile.write(body)


def head(to: BaseHTTPRequestHandler, reply: Reply, length: int) -> None:
    to.send_response(reply.status)
    for name, value in {"Content-Length": str(length), **reply.headers}.items():
        to.send_header(name, value)
    to.end_headers()


def drip(to: BaseHTTPRequestHandler, chunk: bytes, closing: threading.Event, every: float) -> None:
    while not closing.wait(every):
        to.wfile.write(chunk)


def closed(to: BaseHTTPRequestHandler, reply: Reply, closing: threading.Event) -> None:
    to.connection.shutdown(socket.SHUT_RDWR)


def silent(to: BaseHTTPRequestHandler, reply: Reply, closing: threading.Event) -> None:
    to.connection.settimeout(0.05)
    while not closing.is_set():
        with contextlib.suppress(TimeoutError):
            if not to.connection.recv(1):
                return


def cut(to: BaseHTTPRequestHandler, reply: Reply, closing: threading.Event) -> None:
    body = reply.body.encode()
    head(to, reply, len(body))
    to.wfile.write(body[: len(body) // 2])


def garbage(to: BaseHTTPRequestHandler, reply: Reply, closing: threading.Event) -> None:
    to.wfile.write(f"no HTTP {next(_NUMBERS)}\r\n\r\n".encode())


def huge(to: BaseHTTPRequestHandler, reply: Reply, closing: threading.Event) -> None:
    head(to, reply, 2**40)
    drip(to, reply.body.encode() or b"x" * 65536, closing, 0)


def drip_header(to: BaseHTTPRequestHandler, reply: Reply, closing: threading.Event) -> None:
    to.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    drip(to, b"x", closing, 0.05)


def drip_body(to: BaseHTTPRequestHandler, reply: Reply, closing: threading.Event) -> None:
    head(to, reply, 2**20)
    drip(to, b"x", closing, 0.05)


def endless_continue(to: BaseHTTPRequestHandler, reply: Reply, closing: threading.Event) -> None:
    drip(to, b"HTTP/1.1 100 Continue\r\n\r\n", closing, 0.01)


FAULTS = {
    "closed": closed,
    "silent": silent,
    "cut": cut,
    "garbage": garbage,
    "huge": huge,
    "drip": drip_header,
    "drip body": drip_body,
    "continue": endless_continue,
}


@contextlib.contextmanager
def serving(answer: Callable[[Request], Reply]) -> Iterator[Server]:
    """A server for the time of the block."""
    server = Server(answer)
    try:
        yield server
    finally:
        server.close()
