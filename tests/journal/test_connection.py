"""The connection to a server: it sends a request again with the same id, and its journal conforms."""

import json
import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from baco_like import ConfigError, JournalError, SpaceExhausted
from baco_like.exceptions import JournalConflict
from baco_like.journal import Mark, MemoryJournal, RemoteJournal
from baco_like.journal.events import START
from baco_like.journal.remote import Connection, RefusedRequest, is_url
from baco_like.testing.journals import EVENTS, check_journal


class Server:
    """Keeps events in memory and notes the requests; ``faults`` are done before an answer is sent, one after the other.

    A fault is ``cut`` (no answer), a status, or a text that is sent instead of the answer.
    """

    def __init__(self, token=None):
        self.journal, self.token = MemoryJournal(), token
        self.answers, self.requests, self.faults = {}, [], []

    def respond(self, request):
        """Return result or error; a repeated id gets the same answer."""
        key = request["params"]["client"], request["id"]
        self.requests.append(request)
        if key not in self.answers:
            try:
                self.answers[key] = {"result": self._call(request["method"], request["params"])}
            except JournalConflict as error:
                self.answers[key] = refusal("conflict", str(error))
        return self.answers[key]

    def _call(self, method, params):
        if method == "append":
            return {"next": self.journal.append(params["event"], Mark(params["after"])).number}
        events = list(self.journal.read(Mark(params["after"])))[:2]  # answers are cut
        number = events[-1][1].number if events else params["after"]
        end = len(self.journal.events)
        return {"events": [event for event, _ in events], "next": number, "end": end}


def refusal(word, message):
    return {"error": {"code": -32000, "message": message, "data": {"error": word}}}


@contextmanager
def serving(server, port=0):
    connections = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # header and body in one packet

        def setup(self):
            super().setup()
            connections.append(self.connection)

        def do_POST(self):
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            given = self.headers.get("Authorization")
            if server.token is not None and given != f"Bearer {server.token}":
                return self.reply(401, b"{}")
            answer = {"jsonrpc": "2.0", "id": request["id"], **server.respond(request)}
            fault = server.faults.pop(0) if server.faults else None
            if fault == "cut":
                self.close_connection = True
            elif isinstance(fault, str):
                self.reply(200, fault.encode())
            else:
                self.reply(fault or 200, json.dumps(answer).encode())

        def reply(self, status, body):
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    http = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=http.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{http.server_port}/run"
    finally:
        http.shutdown()
        for connection in connections:
            with suppress(OSError):  # it is closed already
                connection.shutdown(socket.SHUT_RDWR)
        thread.join()
        http.server_close()


@pytest.fixture
def server(monkeypatch):
    monkeypatch.delenv("BACO_LIKE_TOKEN", raising=False)
    return Server()


def test_the_journal_of_a_run_on_a_server_conforms(server):
    with serving(server) as url:
        check_journal(lambda: RemoteJournal(url))


@pytest.mark.parametrize("fault", ["cut", 429, 502, 503, 504])
def test_a_request_without_an_answer_is_sent_again_and_done_once(server, fault):
    with serving(server) as url:
        journal = RemoteJournal(url)
        mark = journal.append(EVENTS[0], START)
        server.faults = [fault] * 3
        assert journal.append(EVENTS[1], mark) == Mark(2)
    assert [r["id"] for r in server.requests[1:]] == [server.requests[1]["id"]] * 4
    assert server.journal.events == [dict(event) for event in EVENTS[:2]]


def test_a_server_that_starts_again_is_found_again(server):
    with serving(server) as url:
        journal = RemoteJournal(url)
        mark = journal.append(EVENTS[0], START)
    journal.connection.patience = 0.2
    with pytest.raises(JournalError, match=r"/run does not answer: .*start the server again"):
        journal.append(EVENTS[1], mark)
    journal.connection.patience = 20
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(journal.append, EVENTS[1], mark)
        time.sleep(0.1)
        with serving(server, int(url.split(":")[2].split("/")[0])):
            assert written.result() == Mark(2)


def test_a_wrong_address_is_reported_soon():
    connection = Connection("http://127.0.0.1:9/run", patience=0)
    with pytest.raises(JournalError, match="correct the address"):
        connection.call("hello")


def test_the_token_comes_from_the_argument_or_the_environment(server, monkeypatch):
    server.token = "secret-1"
    with serving(server) as url:
        for token in (None, "other"):
            with pytest.raises(
                JournalError, match="refuses the token; set BACO_LIKE_TOKEN"
            ) as error:
                Connection(url, token).call("events", after=0)
            assert "other" not in str(error.value)
        assert Connection(url, "secret-1\n").call("events", after=0)["end"] == 0
        monkeypatch.setenv("BACO_LIKE_TOKEN", "secret-1")
        assert Connection(url).call("events", after=0)["end"] == 0


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("config", ConfigError),
        ("exhausted", SpaceExhausted),
        ("conflict", JournalConflict),
        ("limit", RefusedRequest),
    ],
)
def test_an_error_of_the_server_becomes_an_exception_of_its_kind(server, word, kind):
    server.respond = lambda request: refusal(word, "what is wrong; the way out")
    with serving(server) as url, pytest.raises(kind, match="what is wrong; the way out") as error:
        Connection(url).call("suggest")
    assert getattr(error.value, "word", word) == word


@pytest.mark.parametrize("answer", ["<html>", "[1]", '"result"', '{"result": NaN}', "1" * 5000])
def test_another_server_is_recognised(server, answer):
    server.faults = [answer]
    with serving(server) as url, pytest.raises(JournalError, match="is it a server of baco-like"):
        Connection(url).call("hello", after=0)


def test_a_run_that_does_not_exist_is_an_empty_journal(server):
    server.respond = lambda request: refusal("no_run", "no such run")
    with serving(server) as url:
        assert list(RemoteJournal(url).read(START)) == []
        with pytest.raises(JournalError, match="no such run"):
            list(RemoteJournal(url).read(Mark(3)))


@pytest.mark.parametrize(
    "url",
    ["http://host:1", "http://host/", "http://u:p@host/run", "http://host/run?x=1", "host/run", ""],
)
def test_other_addresses_are_refused(url):
    with pytest.raises(JournalError, match="is not the address of a run: http://HOST:PORT/RUN"):
        RemoteJournal(url)


def test_addresses():
    assert is_url("http://h/run")
    assert is_url("https://h/run")
    assert not is_url("run.jsonl")
    assert not is_url(None)
    proxy = Connection("https://[::1]:8443/tuning/run")
    assert (proxy._host, proxy._port, proxy._path) == ("::1", 8443, "/tuning/run")


def test_threads_and_forked_children_share_a_connection(server):
    with serving(server) as url:
        connection = Connection(url)

        def ask():
            for _ in range(20):
                connection.call("events", after=0)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        child = os.fork()
        if child == 0:
            try:
                ask()
            finally:
                os._exit(0)
        ask()
        os.waitpid(child, 0)
    ids = [request["id"] for request in server.requests]
    assert len(ids) == len(set(ids)) == 120
