"""Servers in this process and in forks, for the tests of the service."""

import contextlib
import http.client
import itertools
import json
import os
import signal
import threading
import warnings

from baco_like.service.http import HttpServer
from baco_like.service.messages import Limits
from baco_like.service.methods import Service
from baco_like.service.runs import Runs
from baco_like.service.stdio import serve_lines

SPACE = {
    "tile": {"type": "ordinal", "values": [8, 16, 32, 64]},
    "order": {"type": "permutation", "elements": ["i", "j", "k"]},
    "unroll": {"type": "integer", "low": 1, "high": 8},
}
TABLES = {"space": SPACE, "optimizer": {"strategy": "random_search", "seed": 5}}

_NUMBERS = itertools.count()


def new_id():
    """Return an id that no other request has."""
    return f"t-{next(_NUMBERS)}"


def line(method, request=None, **params):
    """Return the line of a request."""
    request = new_id() if request is None else request
    return json.dumps({"jsonrpc": "2.0", "id": request, "method": method, "params": params})


class Client:
    """Sends requests by a function from a line to a line."""

    def __init__(self, send):
        self.send = send

    def ask(self, method, request=None, **params):
        """Return the whole answer to a request."""
        return json.loads(self.send(line(method, request, **params)))

    def call(self, method, request=None, **params):
        """Return the result of a request, which must succeed."""
        answer = self.ask(method, request, **params)
        assert "result" in answer, answer
        return answer["result"]

    def error(self, method, request=None, **params):
        """Return the word and the message of the error of a request, which must fail."""
        error = self.ask(method, request, **params)["error"]
        return error["data"]["error"], error["message"]


def in_process(*args, **kwargs):
    """Return a service of this process with its client; the arguments are those of `Runs`."""
    service = Service(Runs(*args, **kwargs))
    return service, Client(lambda text: service.answer(text.encode()))


@contextlib.contextmanager
def over_http(limits=None, token=None, hosts=(), folder=None):
    """Yield the address of a server of this process."""
    server = HttpServer(
        Service(Runs(folder, limits=limits or Limits())), "127.0.0.1", 0, token, hosts
    )
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server.server_address
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        server.service.runs.close()


@contextlib.contextmanager
def http_client(address, path="/", headers=None):
    """Yield a client of a server over HTTP, with one connection."""
    with contextlib.closing(http.client.HTTPConnection(*address, timeout=20)) as connection:

        def send(text):
            connection.request("POST", path, text.encode(), headers or {})
            return connection.getresponse().read()

        yield Client(send)


class Killable:
    """A server over pipes in a fork of this process, which can be killed at any moment."""

    def __init__(self, folder):
        self._folder = folder
        self.start()

    def start(self):
        theirs, to_server = os.pipe()
        from_server, answers = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads of BLAS
            self._child = os.fork()
        if not self._child:
            os.close(to_server)
            os.close(from_server)
            with os.fdopen(theirs, "rb") as incoming, os.fdopen(answers, "wb") as outgoing:
                serve_lines(Service(Runs(self._folder)), incoming, outgoing)
            os._exit(0)
        os.close(theirs)
        os.close(answers)
        self._outgoing = os.fdopen(to_server, "wb", buffering=0)
        self._incoming = os.fdopen(from_server, "rb")

    def send(self, text):
        """Send a line without waiting for the answer."""
        self._outgoing.write(text.encode() + b"\n")

    def read(self):
        """Return the next line."""
        return self._incoming.readline()

    def kill(self):
        os.kill(self._child, signal.SIGKILL)
        os.waitpid(self._child, 0)
        self._outgoing.close()
        self._incoming.close()
