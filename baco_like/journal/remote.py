"""A run on a server (``baco-like serve --http``): the connection to it, and its events as a journal.

A request that got no answer is sent again with the same id; the server does nothing twice. Only the standard library is
used, so that a worker starts fast.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import re
import secrets
import socket
import time
import weakref
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, TypeGuard, final

from baco_like._checks import reject_constant
from baco_like.exceptions import (
    ConfigError,
    JournalConflict,
    JournalError,
    SpaceError,
    SpaceExhausted,
    TrialError,
)
from baco_like.journal.events import Event, Mark, to_json

TOKEN = "BACO_LIKE_TOKEN"
"""Environment variable with the token of a server."""

_ADDRESS = re.compile(
    r"(?P<scheme>https?)://(?P<host>[\w.-]+|\[[\da-fA-F:.]+\])(:(?P<port>\d{1,5}))?(?P<path>(/[\w.~-]+)+)"
)
"""A server and the name of a run on it; a proxy may add a path before the name."""

_KINDS: Mapping[str, type[http.client.HTTPConnection]] = {
    "http": http.client.HTTPConnection,
    "https": http.client.HTTPSConnection,
}

_ERRORS: Mapping[str, type[Exception]] = {
    "config": ConfigError,
    "trial": TrialError,
    "exhausted": SpaceExhausted,
    "space": SpaceError,
    "conflict": JournalConflict,
}
"""Exceptions for the error words of the protocol; all others are a `RefusedRequest`."""

_TRY_AGAIN = (
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
)
"""Answers of a server, or of a proxy before it, that is busy or being started."""

_LONGEST_NAP = 2.0
"""Most seconds between two attempts; the pause doubles."""

_FIRST_PATIENCE = 10.0
"""Seconds of attempts before the first answer: the address may be wrong."""

_BATCH = 1000
"""Number of events of one request."""


class RefusedRequest(JournalError):
    """The server has refused a request.

    Attributes:
        word: The error word of the protocol, such as ``no_run``.
    """

    def __init__(self, message: str, word: str) -> None:
        super().__init__(message)
        self.word = word


def is_url(storage: Any) -> TypeGuard[str]:
    """Whether an argument is the address of a run on a server."""
    return isinstance(storage, str) and storage.startswith(("http://", "https://"))


class Connection:
    """Sends requests to a run on a server, from any thread; a forked child opens its own connections.

    Args:
        url: The server and the name of the run: ``http://HOST:PORT/RUN``. HTTPS needs a proxy before the server.
        token: The token of the server; None: the environment variable ``BACO_LIKE_TOKEN``.
        patience: Seconds during which a request is sent again if the server cannot be reached.
        timeout: Seconds to wait for one answer.

    Attributes:
        client: Name of this client: the machine and a random part.

    Raises:
        JournalError: The address has another form.
    """

    def __init__(
        self, url: str, token: str | None = None, *, patience: float = 300.0, timeout: float = 120.0
    ) -> None:
        self.url, self.patience, self.timeout = url, patience, timeout
        match = _ADDRESS.fullmatch(url) if isinstance(url, str) else None
        if match is None:
            raise JournalError(f"{url!r:.200} is not the address of a run: http://HOST:PORT/RUN")
        self._kind, self._host = _KINDS[match["scheme"]], match["host"].strip("[]")
        self._port = None if match["port"] is None else int(match["port"])
        self._path = match["path"]
        token = os.environ.get(TOKEN) if token is None else token
        self._headers = {"Content-Type": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token.strip()}"
        self.client = f"{socket.gethostname()[:40]}-{secrets.token_hex(3)}"
        self._has_answered = False
        self._idle: list[http.client.HTTPConnection] = []
        weakref.finalize(self, _close_all, self._idle)
        self._start_process()

    def _start_process(self) -> None:
        _close_all(self._idle)  # a forked child closes its copies of the sockets only
        self._process, self._prefix = os.getpid(), secrets.token_hex(6)
        self._numbers = itertools.count(1)

    def call(self, method: str, **params: Any) -> Any:
        """Return the result of a request; parameters that are None are left out.

        Raises:
            ConfigError, TrialError, SpaceError, SpaceExhausted, JournalConflict: The server has raised it.
            RefusedRequest: Any other error of the server.
            JournalError: The server cannot be reached or does not accept the request.
        """
        if self._process != os.getpid():
            self._start_process()
        given = {name: value for name, value in params.items() if value is not None}
        request = {
            "jsonrpc": "2.0",
            "id": f"{self._prefix}-{next(self._numbers)}",
            "method": method,
            "params": {"client": self.client, **given},
        }
        body = json.dumps(request, allow_nan=False, separators=(",", ":")).encode()
        answer = self._send(body)
        if "result" in answer:
            return answer["result"]
        error = answer["error"]
        word, message = error.get("data", {}).get("error", ""), error["message"]
        if word in _ERRORS:
            raise _ERRORS[word](message)
        raise RefusedRequest(message, word)

    def _send(self, body: bytes) -> dict[str, Any]:
        """Return the answer; send the request again until the patience ends."""
        patience = self.patience if self._has_answered else min(self.patience, _FIRST_PATIENCE)
        deadline, nap = time.monotonic() + patience, 0.0
        while True:
            try:
                answer = self._exchange(body)
                self._has_answered = True
                return answer
            except (OSError, http.client.HTTPException) as error:
                if time.monotonic() + nap > deadline:
                    reason = str(error) or type(error).__name__
                    raise JournalError(
                        f"{self.url} does not answer: {reason}; start the server again (it has lost nothing), or "
                        "correct the address"
                    ) from error
            time.sleep(nap)
            nap = min(2 * nap, _LONGEST_NAP) or 0.05

    def _exchange(self, body: bytes) -> dict[str, Any]:
        """Send a request once.

        Raises:
            OSError, HTTPException: Nothing is known about the request; it may be sent again.
            JournalError: The server does not accept it.
        """
        try:
            link = self._idle.pop()
        except IndexError:  # all are in use, by other threads
            link = self._kind(self._host, self._port, timeout=self.timeout)
        try:
            link.request("POST", self._path, body, self._headers)
            response = link.getresponse()
            text = response.read()
        except BaseException:
            link.close()
            raise
        self._idle.append(link)
        if response.status in _TRY_AGAIN:
            raise http.client.HTTPException(f"HTTP {response.status} {response.reason}")
        if response.status == HTTPStatus.UNAUTHORIZED:
            raise JournalError(
                f"{self.url}: the server refuses the token; set {TOKEN} to the one that it was started with"
            )
        try:
            answer: dict[str, Any] = json.loads(text, parse_constant=reject_constant)
            answer.keys() & {"result", "error"}
        except (ValueError, AttributeError) as error:
            raise JournalError(
                f"{self.url} answers HTTP {response.status} with {text!r:.100}; is it a server of baco-like?"
            ) from error
        return answer


def _close_all(connections: list[http.client.HTTPConnection]) -> None:
    while connections:
        connections.pop().close()


@final
class RemoteJournal:
    """The events of a run on a server. The first event that is appended makes the run.

    Args:
        url: The server and the name of the run: ``http://HOST:PORT/RUN``.
        token: The token of the server; None: the environment variable ``BACO_LIKE_TOKEN``.

    Attributes:
        url: The address.
        connection: The connection to the server.

    Raises:
        JournalError: The address has another form.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url, self.connection = url, Connection(url, token)

    def read(self, after: Mark) -> Iterator[tuple[Event, Mark]]:
        """Return the events after a position, each with the position behind it.

        Raises:
            JournalError: The server cannot be reached.
        """
        number, end = after.number, after.number + 1
        while number < end:
            try:
                answer = self.connection.call("events", after=number, most=_BATCH)
            except RefusedRequest as error:
                if error.word == "no_run" and not number:
                    return
                raise
            end = answer["end"]
            for event in answer["events"]:
                number += 1
                yield event, Mark(number)

    peek = read

    def append(self, event: Event, after: Mark) -> Mark:
        """Write one event on the disk of the server and return the position behind it.

        Raises:
            JournalConflict: The journal has events after that position.
            JournalError: The event could not be written.
        """
        to_json(event)  # raises an error for a value without a JSON form
        return Mark(self.connection.call("append", event=event, after=after.number)["next"])

    def add(self, event: Event) -> Mark:
        """Write one event wherever the journal ends, and return the position behind it.

        Workers with short evaluations would otherwise wait for each other.

        Raises:
            JournalConflict: The event does not fit the events that have been added.
            JournalError: The event could not be written.
        """
        try:
            return Mark(self.connection.call("append", event=event)["next"])
        except (TrialError, ConfigError) as error:
            raise JournalConflict(str(error)) from error
