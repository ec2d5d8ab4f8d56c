"""``baco-like serve --http``: the same messages in the bodies of HTTP requests.

Nobody gets in who does not belong. Without a token the server listens on the loopback interface only, and refuses what
a browser sends for a web page: a ``Host`` with the name of another machine, or an ``Origin``.
"""

from __future__ import annotations

import hmac
import io
import ipaddress
import re
import socket
import sys
import threading
import time
import traceback
from collections import OrderedDict, deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

import msgspec
from typing_extensions import override

from baco_like.exceptions import RunFileError
from baco_like.service import messages
from baco_like.service.messages import ERRORS
from baco_like.service.methods import Service

_IDLE = 75.0
"""Seconds after which an idle connection is closed, if a request of it was allowed."""

_CLOSING = 1.0
"""Seconds within which an idle connection ends, to make room for a new one."""

_SEND = 30.0
"""Seconds within which a client must take an answer."""

_LINGER, _MOST_UNREAD = 1.0, 2**24
"""Seconds and bytes for which the rest of a refused request is read."""

_MOST_REFUSED = 32
"""Number of refused connections that are kept until their clients have read the answer."""

_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")

_SHORTEST_TOKEN = 16

_ADDRESSES = 10_000
"""Number of addresses whose requests are counted."""

_PATH = re.compile(r"/(?:([A-Za-z0-9][A-Za-z0-9_-]{0,63})/?)?")


def check_access(host: str, hosts: Collection[str], token: str | None) -> None:
    """Check who may reach a server before it listens.

    Args:
        host: The address to listen on.
        hosts: Names under which others reach the server.
        token: The token, or None.

    Raises:
        RunFileError: Others may reach it without a token, or the token is short.
    """
    is_open = bool(hosts) or not _is_loopback(host)
    if not _is_loopback(host) and not hosts:
        raise RunFileError(
            f"--http {host}: other machines reach this address; add --host NAME, the name that they use, and a token"
        )
    if is_open and token is None:
        raise RunFileError(
            "other machines may use this server only with a token; write one into a file and add --token-file FILE, "
            "or set BACO_LIKE_TOKEN"
        )
    if token is not None and (len(token) < _SHORTEST_TOKEN or not token.isascii()):
        raise RunFileError(
            f"the token has {len(token)} characters; use at least {_SHORTEST_TOKEN} of ASCII, such as the output of "
            "`openssl rand -hex 32`"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class HttpServer(ThreadingHTTPServer):
    """Answers requests, each connection in a thread.

    Args:
        service: Answers the messages.
        host: The address to listen on.
        port: The port; 0 takes a free one.
        token: The token that each request must have, or None.
        hosts: Further names that a request may have in ``Host``.

    Raises:
        OSError: The address is in use or does not exist.
    """

    daemon_threads = True
    request_queue_size = 1024

    def __init__(
        self,
        service: Service,
        host: str,
        port: int,
        token: str | None = None,
        hosts: Collection[str] = (),
    ) -> None:
        limits = service.runs.limits
        self.service, self.limits, self.token = service, limits, token
        own = f"[{host}]" if ":" in host else host
        self.hosts = {name.lower() for name in (*_LOOPBACK, *hosts, own)}
        self.rate = None if limits.most_requests is None else _Rate(limits.most_requests)
        self._refused: deque[Any] = deque()
        self._free = threading.BoundedSemaphore(limits.most_connections)
        self.idle = _IdleConnections()
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), _Handler)

    @override
    def server_bind(self) -> None:
        TCPServer.server_bind(
            self
        )  # the base class also asks for the name of the host, which may take seconds

    @override
    def process_request(self, request: Any, client_address: Any) -> None:
        if self._has_room():
            try:
                super().process_request(request, client_address)
            except RuntimeError:  # the system starts no more threads
                self._free.release()
                raise
            return
        body = _error("limit", f"{self.limits.most_connections} connections are open; try later")
        request.settimeout(1.0)
        with suppress(OSError):
            request.sendall(_response(HTTPStatus.SERVICE_UNAVAILABLE, body, closes=True))
            request.shutdown(socket.SHUT_WR)
        # A client that is still sending loses the answer if the connection is closed at once.
        self._refused.append(request)
        if len(self._refused) > _MOST_REFUSED:
            self.shutdown_request(self._refused.popleft())

    def _has_room(self) -> bool:
        """Take a place for a connection, if need be the place of the one that is idle for the longest time."""
        if self._free.acquire(blocking=False):
            return True
        return self.idle.close_oldest() and self._free.acquire(timeout=_CLOSING)

    @override
    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    @override
    def server_close(self) -> None:
        super().server_close()
        while self._refused:
            self.shutdown_request(self._refused.popleft())

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore an error of a connection (the client has gone, or is too slow); report a bug."""
        if not isinstance(sys.exc_info()[1], OSError):
            traceback.print_exc()


class _Rate:
    """Counts the requests of each address: a bucket that fills with ``rate`` requests a second, up to two seconds."""

    def __init__(self, rate: float) -> None:
        self._rate, self._most = rate, max(1.0, 2 * rate)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def allows(self, address: str) -> bool:
        """Count a request, unless there were too many."""
        now = time.monotonic()
        with self._lock:
            left, then = self._buckets.pop(address, (self._most, now))
            left = min(self._most, left + (now - then) * self._rate)
            is_allowed = left >= 1.0
            self._buckets[address] = (left - is_allowed, now)
            if len(self._buckets) > _ADDRESSES:
                self._buckets.popitem(last=False)
        return is_allowed


class _IdleConnections:
    """The connections that wait for the first byte of a request, the one that waits longest first."""

    def __init__(self) -> None:
        self._connections: OrderedDict[socket.socket, None] = OrderedDict()
        self._lock = threading.Lock()

    @contextmanager
    def waiting(self, connection: socket.socket) -> Iterator[None]:
        """Let the connection be closed within a ``with`` block."""
        with self._lock:
            self._connections[connection] = None
        try:
            yield
        finally:
            with self._lock:
                self._connections.pop(connection, None)

    def close_oldest(self) -> bool:
        """End the connection that waits longest; return whether there is one."""
        with self._lock:
            if not self._connections:
                return False
            with suppress(OSError):
                self._connections.popitem(last=False)[0].shutdown(socket.SHUT_RDWR)
            return True


class _TimedReader(io.RawIOBase):
    """Reads a socket; a whole request must arrive within some seconds after its first byte.

    Attributes:
        patience: Seconds in which the first byte must arrive.
    """

    def __init__(self, connection: socket.socket, arrival: float, idle: _IdleConnections) -> None:
        self._connection, self._arrival, self._idle = connection, arrival, idle
        self.patience = arrival
        self._until: float | None = None

    def wait_for_next(self) -> None:
        """Begin to wait for the next request."""
        self._until = None

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: Any) -> int:
        if self._until is None:
            self._connection.settimeout(self.patience)
            with self._idle.waiting(self._connection):
                count = self._connection.recv_into(buffer)
            self._until = time.monotonic() + self._arrival
            return count
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request takes too long")
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


def _error(word: str, text: str) -> bytes:
    error = {"code": ERRORS[word], "message": text, "data": {"error": word}}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": error})


def _response(status: HTTPStatus, body: bytes, closes: bool) -> bytes:
    head = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        f"Connection: {'close' if closes else 'keep-alive'}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        *(["WWW-Authenticate: Bearer"] if status == HTTPStatus.UNAUTHORIZED else []),
    ]
    return "\r\n".join([*head, "", ""]).encode("ascii") + body


class _Refused(Exception):
    """A request is refused, with a status, the word of the error and its text."""


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: HttpServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    @override
    def setup(self) -> None:
        super().setup()
        self._reader = _TimedReader(self.connection, self.server.limits.arrival, self.server.idle)
        self.rfile = io.BufferedReader(self._reader)

    @override
    def handle_one_request(self) -> None:
        self._reader.wait_for_next()
        try:
            super().handle_one_request()
        except _Refused as refused:
            self._refuse(*refused.args)

    @override
    def handle_expect_100(self) -> bool:
        """Let the client send the body only if it is allowed to."""
        self._read_length()
        return super().handle_expect_100()

    def do_POST(self) -> None:
        """Answer a message."""
        length = self._read_length()
        self._count_request()
        path = _PATH.fullmatch(self.path)
        if path is None:
            raise _Refused(HTTPStatus.NOT_FOUND, "request", "POST to / or to /NAME of a run")
        body = self.rfile.read(length)
        if len(body) < length:  # the client has gone
            self.close_connection = True
            return
        self._send(HTTPStatus.OK, self.server.service.answer(body, path[1]))

    def do_GET(self) -> None:
        """Return the description of the service."""
        self._check_allowed()
        self._count_request()
        if self.path != "/openapi.json":
            text = "GET knows /openapi.json only; POST messages to / or to /NAME of a run"
            raise _Refused(HTTPStatus.NOT_FOUND, "request", text)
        self._send(HTTPStatus.OK, msgspec.json.encode(messages.openapi()))

    def _check_allowed(self) -> None:
        """Refuse a request of somebody who does not belong."""
        server = self.server
        hosts = self.headers.get_all("Host") or []
        name = re.sub(r":\d*$", "", hosts[0]).lower() if len(hosts) == 1 else ""
        token = server.token
        if token is not None:
            given = self.headers.get("Authorization", "").encode("latin-1", "replace")
            if not hmac.compare_digest(given, b"Bearer " + token.encode()):
                text = (
                    "the token (the header 'Authorization: Bearer TOKEN', Options::token in C++, BACO_LIKE_TOKEN) is "
                    "missing or wrong"
                )
                raise _Refused(HTTPStatus.UNAUTHORIZED, "request", text)
        if name not in server.hosts:
            text = f"Host {name!r:.80} is not a name of this server; add it by --host"
            raise _Refused(HTTPStatus.FORBIDDEN, "request", text)
        if self.headers.get("Origin") is not None:
            text = "requests of web pages, which have an Origin, are refused"
            raise _Refused(HTTPStatus.FORBIDDEN, "request", text)
        if self.headers.defects:  # the headers behind it were not read; a proxy may have read them
            raise _Refused(HTTPStatus.BAD_REQUEST, "request", "a header is malformed")
        self._reader.patience = _IDLE

    def _count_request(self) -> None:
        """Count a request, and refuse it if there were too many."""
        rate = self.server.rate
        if rate is not None and not rate.allows(self.client_address[0]):
            text = f"more than {self.server.limits.most_requests:g} requests a second; try later"
            raise _Refused(HTTPStatus.TOO_MANY_REQUESTS, "limit", text)

    def _read_length(self) -> int:
        """Return the length of the body of an allowed request."""
        self._check_allowed()
        lengths = self.headers.get_all("Content-Length") or []
        if self.headers.get("Transfer-Encoding") is not None or len(lengths) != 1:
            text = "a message needs one Content-Length, and no Transfer-Encoding"
            raise _Refused(HTTPStatus.LENGTH_REQUIRED, "request", text)
        most = self.server.limits.most_bytes
        if not re.fullmatch(r"[0-9]{1,15}", lengths[0]):
            raise _Refused(HTTPStatus.BAD_REQUEST, "request", "Content-Length is not a number")
        if int(lengths[0]) > most:
            text = f"the message has {lengths[0]} bytes; the server reads {most}"
            raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "limit", text)
        return int(lengths[0])

    def _refuse(self, status: HTTPStatus, word: str, text: str) -> None:
        """Send an error, and close the connection, because the body was not read."""
        self.close_connection = True
        self._send(status, _error(word, text))
        # A client that is still sending loses the answer if the connection is closed before it has stopped.
        self.connection.shutdown(socket.SHUT_WR)
        self.connection.settimeout(_LINGER)
        until, left = time.monotonic() + _LINGER, _MOST_UNREAD
        with suppress(OSError):
            while left > 0 and time.monotonic() < until:
                count = len(self.connection.recv(2**16))
                left = left - count if count else 0

    def _send(self, status: HTTPStatus, body: bytes) -> None:
        self.connection.settimeout(_SEND)
        self.wfile.write(_response(status, body, self.close_connection))

    @override
    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Send an error of the base class in our form."""
        self._refuse(HTTPStatus(code), "request", message or HTTPStatus(code).phrase)

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: a request may have a token."""
