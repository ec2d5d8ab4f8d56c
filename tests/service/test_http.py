"""HTTP: who may enter, and what a server does not take."""

import contextlib
import http.client
import json
import socket
import time

import pytest
from serving import TABLES, http_client, line, over_http

from baco_like.cli import main
from baco_like.cli.serving import read_token
from baco_like.exceptions import BacoWarning, RunFileError
from baco_like.service.http import HttpServer, check_access
from baco_like.service.messages import METHODS, Limits

TOKEN = "0123456789abcdef"  # of the tests
BEARER = {"Authorization": f"Bearer {TOKEN}"}
BODY = line("hello").encode()


def request(address, method="POST", path="/", body=BODY, headers=None):
    """Return the status, and the error or the result of one request."""
    with contextlib.closing(http.client.HTTPConnection(*address, timeout=20)) as connection:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        answer = json.loads(response.read())
        return response.status, answer.get("result") or answer["error"]["message"]


def raw(address, text, seconds=20.0):
    """Return what a server answers to bytes until it closes the connection."""
    with socket.create_connection(address, timeout=seconds) as connection:
        connection.sendall(text)
        received = b""
        while part := connection.recv(4096):
            received += part
        return received


@pytest.fixture(scope="module")
def server():
    with over_http() as address:
        yield address


@pytest.fixture(scope="module")
def guarded():
    with over_http(token=TOKEN, hosts=["tuner.example.org"]) as address:
        yield address


def test_a_run_by_its_path_or_by_its_name(server):
    with http_client(server, "/first") as first, http_client(server) as other:
        assert first.call("open", **TABLES)["run"] == "first"
        (trial,) = first.call("suggest", client="node7")["trials"]
        with http_client(server, "/first/") as slash:
            assert slash.call("status")["pending"] == [trial]
        assert other.call("status", run="first")["pending"] == [trial]
        assert trial["client"] == "node7"
        assert other.call("open", run="second", **TABLES)["run"] == "second"
        word, message = other.error("status")
        assert word == "no_run"
        assert "first, second" in message
        assert first.call("status", run="second")["observed"] == 0, "the message decides"


def test_openapi(server):
    status, described = request_openapi(server)
    assert status == 200
    assert f"{next(iter(METHODS))}.request" in described["components"]["schemas"]


def request_openapi(address, headers=None):
    with contextlib.closing(http.client.HTTPConnection(*address, timeout=20)) as connection:
        connection.request("GET", "/openapi.json", headers=headers or {})
        response = connection.getresponse()
        return response.status, json.loads(response.read())


@pytest.mark.parametrize(
    ("expected", "given"),
    [
        (403, {"headers": {"Host": "evil.example.org"}}),
        (403, {"headers": {"Host": "localhost.example.org:80"}}),
        (403, {"headers": {"Origin": "http://127.0.0.1"}}),
        (404, {"path": "/../etc/passwd"}),
        (404, {"path": "/a/b"}),
        (404, {"method": "GET", "body": None}),
        (501, {"method": "PUT"}),
        (413, {"body": b"x" * (2**20 + 1)}),
        (411, {"body": iter([b"x"])}),
        (400, {"headers": {"Content-Length": "-1"}}),
    ],
)
def test_what_a_server_refuses(server, expected, given):
    status, message = request(server, **given)
    assert status == expected
    assert message
    assert request(server)[0] == 200


def test_a_huge_body_is_refused_before_it_arrives(server):
    head = f"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {2**30}\r\n"
    for expect in ("", "Expect: 100-continue\r\n"):
        answer = raw(server, f"{head}{expect}\r\n".encode() + b"x" * 1000)
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"Connection: close" in answer


@pytest.mark.parametrize(
    "text",
    [
        b"\0\0\0\r\n\r\n",
        b"POST / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n",
        b"GET /" + b"x" * 70_000,
        b"POST / HTTP/1.1\r\nHost: a\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nA : b\r\nOrigin: c\r\n\r\n{}",
    ],
)
def test_no_http_that_we_know(server, text):
    answer = raw(server, text)
    assert answer.split()[1] in (b"400", b"403", b"411", b"414", b"431", b"505")
    assert request(server)[0] == 200


def test_a_token(guarded):
    for headers in (
        {},
        {"Authorization": "Bearer"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": "é"},
    ):
        status, message = request(guarded, headers=headers)
        assert (status, TOKEN in message) == (401, False)
    assert request_openapi(guarded)[0] == 401
    assert request(guarded, headers=BEARER)[0] == 200
    assert request(guarded, headers={**BEARER, "Host": "Tuner.example.org:443"})[0] == 200
    assert request(guarded, headers={**BEARER, "Host": "other.example.org"})[0] == 403


def test_a_token_that_others_may_read(tmp_path):
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o600)
    assert read_token(file) == TOKEN
    file.chmod(0o644)
    with pytest.warns(BacoWarning, match="chmod 600"):
        read_token(file)


@pytest.mark.parametrize(
    ("host", "hosts", "token", "named"),
    [
        ("0.0.0.0", [], TOKEN, "--host"),
        ("::", [], TOKEN, "--host"),
        ("192.0.2.1", ["tuner"], None, "--token-file"),
        ("127.0.0.1", ["tuner"], None, "--token-file"),
        ("127.0.0.1", [], "short", "16"),
    ],
)
def test_no_server_that_others_reach_without_a_token(host, hosts, token, named):
    with pytest.raises(RunFileError, match=named):
        check_access(host, hosts, token)


@pytest.mark.parametrize(
    ("host", "hosts", "token"),
    [
        ("127.0.0.1", [], None),
        ("localhost", [], None),
        ("::1", [], TOKEN),
        ("0.0.0.0", ["a"], TOKEN),
    ],
)
def test_servers_that_may_start(host, hosts, token):
    check_access(host, hosts, token)


def send_slowly(connection):
    for _ in range(10_000):
        connection.sendall(b"x")
        time.sleep(0.02)


def test_a_request_must_arrive_in_time():
    with over_http(Limits(arrival=0.2)) as address:
        assert raw(address, b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Le") == b""
        with socket.create_connection(address) as slow:
            slow.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nX: ")
            with pytest.raises(ConnectionError):
                send_slowly(slow)
        assert request(address)[0] == 200


def test_more_connections_than_allowed():
    with over_http(Limits(most_connections=2)) as address, contextlib.ExitStack() as stack:
        for _ in range(2):
            connection = stack.enter_context(socket.create_connection(address, timeout=20))
            connection.sendall(b"POST / HTTP/1.1\r\n")
            time.sleep(0.2)
        assert request(address)[0] == 503
        rest = f"Host: localhost\r\nContent-Length: {len(BODY)}\r\n\r\n"
        connection.sendall(rest.encode() + BODY)
        assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")


def test_an_idle_connection_makes_room_for_a_new_one():
    with over_http(Limits(most_connections=3)) as address, contextlib.ExitStack() as stack:
        for _ in range(10):
            stack.enter_context(socket.create_connection(address, timeout=20))
        clients = [stack.enter_context(http_client(address)) for _ in range(10)]
        for client in clients:
            client.call("hello")
        client.call("hello")  # the newest one is not closed
        with pytest.raises((OSError, http.client.HTTPException)):
            clients[0].call("hello")


def test_a_connection_that_says_nothing_ends_soon():
    with over_http(Limits(arrival=0.2)) as address, http_client(address) as known:
        known.call("hello")
        assert raw(address, b"") == b""
        time.sleep(0.3)
        known.call("hello")  # one whose requests were allowed may pause


def test_a_thread_that_cannot_start_keeps_no_place(monkeypatch):
    with over_http(Limits(most_connections=1)) as address:
        with monkeypatch.context() as patch:
            patch.setattr("threading.Thread.start", _no_thread)
            assert raw(address, b"") == b""
        assert request(address)[0] == 200


def _no_thread(self):
    raise RuntimeError("can't start new thread")


def test_more_requests_than_allowed():
    with over_http(Limits(most_requests=2)) as address:
        found = [request(address)[0] for _ in range(8)]
        assert found[:4] == [200] * 4
        assert 429 in found


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--http", "0.0.0.0:0"], "--host"),
        (["--http", "127.0.0.1:0", "--host", "tuner"], "--token-file"),
        (["--http", "127.0.0.1:0", "--token-file", "missing"], "missing"),
        (["--json", "--limit", "most_run=3"], "most_runs"),
        (["--json", "--limit", "most_runs=0"], "above 0"),
        (["--json", "--ahead", "3"], "--ahead"),
        (["--json", "missing.json"], "missing.json"),
        ([], "--json"),
        (["job.toml"], "for a run file add --json or --http"),
        (["--json", "--folder", "runs", "--journal", "run.jsonl"], "give one of them"),
    ],
)
def test_mistakes_on_the_command_line(tmp_path, monkeypatch, capsys, words, named):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BACO_LIKE_TOKEN", raising=False)
    assert main(["serve", *words]) == 2
    assert named in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "kept"),
    [([], "runs"), (["--folder", "mine"], "mine"), (["--journal", "run.jsonl"], "run.jsonl")],
)
def test_a_server_says_where_it_keeps_the_runs(tmp_path, monkeypatch, capsys, words, kept):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(HttpServer, "serve_forever", lambda self: None)
    assert main(["serve", "--http", "127.0.0.1:0", *words]) == 0
    address, shown = capsys.readouterr().out.split(" (")
    assert address.startswith("listening on http://127.0.0.1:")
    assert shown == f"journals: {kept})\n"
