"""A small server of the protocol that misbehaves as its first argument says: `fake_server.py MODE [--journal FILE]`.

It suggests the numbers 0, 1, 2, ... as tiles. The journal keeps the answers, so that a server that is started again
gives the same answer to the same id.
"""

import contextlib
import itertools
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

TEXT = 'a "quoted" \\ text, \u00e9 \u4e2d \U0001f600'
CONFIG = {
    "loops": [2, 0, 1],
    "names": ["i", "j"],
    "big": 2**63 - 1,
    "x": 0.1,
    "on": True,
    "text": TEXT,
}


class FakeRun:
    """The state of the server: its answers by id, and its trials."""

    def __init__(self, journal=None):
        self.journal, self.answers, self.trials, self.requests = journal, {}, 0, []
        self.unknown = []  # methods that are called before the run is open
        self.waits = 0  # number of suggestions that wait for another program
        self.pending = 3  # number of pending trials, every second one of another program
        self.restarted = journal is not None and journal.exists()
        for line in journal.read_text().splitlines() if self.restarted else ():
            answer = json.loads(line)
            self.answers[answer["id"]] = answer
            self.trials += len(answer["result"].get("trials", ()))

    def answer(self, request):
        self.requests.append(request)
        if request["id"] not in self.answers:
            answer = {"jsonrpc": "2.0", "id": request["id"], **self.reply(**request)}
            if "error" in answer:
                return answer
            self.answers[request["id"]] = answer
            if self.journal is not None:
                with self.journal.open("a") as file:
                    file.write(json.dumps(answer) + "\n")
        return self.answers[request["id"]]

    def reply(self, method, params, **_):
        if method == "hello":
            return {"result": {"name": "fake", "protocol": 1}}
        if method in self.unknown:
            self.unknown.remove(method)
            return error(-32007, "no_run", "no run is open")
        if method == "suggest":
            if self.waits:
                self.waits -= 1
                return error(-32011, "wait", "the other evaluations are pending")
            if self.trials >= 5:
                return error(-32004, "ended", "the run has ended: 5 evaluations")
            ids = range(self.trials, self.trials + params.get("n", 1))
            self.trials += len(ids)
            return {"result": {"trials": [{"id": i, "config": {"tile": i, **CONFIG}} for i in ids]}}
        if method == "observe" and not 0 <= params["trial"] < self.trials:
            return error(-32002, "trial", f"no trial {params['trial']}")
        if method in {"best", "claim"}:
            return {"result": {"trial": None}}
        if method == "propose":
            return {
                "result": {
                    "answers": [{"accepted": False, "reason": "infeasible: 3", "nearest": None}]
                }
            }
        if method == "status":
            names = params["client"], "other"
            every = range(self.pending)
            own = [{"id": i, "config": {}, "client": names[i % 2]} for i in every]
            return {"result": {"pending": own}}
        if method == "front":
            return {"result": {"trials": [{"id": 3, "config": {}, "value": 1.5}]}}
        if method in {"observe", "abandon", "heartbeat", "enqueue", "open"}:
            return {"result": {"best": True, "got": params}}
        return error(-32601, "method", f"no method {method!r}")


def error(code, word, message):
    return {"error": {"code": code, "message": message, "data": {"error": word}}}


WRONG = {
    "endless head": itertools.chain([b"HTTP/1.1 200 OK\r\n"], itertools.repeat(b"X: y\r\n" * 9999)),
    "huge chunk": [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 16 + b"\r\n"],
    "no status": [b"HTTP/1.\nContent-Length: 3\r\n\r\nabc"],
    "huge status": [b"HTTP/1.1 99999999999999999999 X\r\nContent-Length: 3\r\n\r\nabc"],
}
"""What no server of HTTP answers."""


def replies(mode, run, request):
    """Yield what the server writes for a request."""
    if mode == "version":
        yield json.dumps({"id": request["id"], "result": {"protocol": 2}}) + "\n"
        return
    if request["method"] == "suggest":
        if mode == "silent":
            return
        if mode == "stubborn":
            time.sleep(600)
        if mode == "slow" and run.trials == 0:  # the answer comes with the one to the next request
            run.answer(request)
            return
        if mode == "slow":
            yield json.dumps(run.answer(run.requests[-1])) + "\n"
        if mode == "stale":
            yield '{"jsonrpc":"2.0","id":"of an earlier call","result":{"trials":[]}}\n'
        if mode == "garbage":
            yield "Welcome to this machine\n"
            return
        if mode == "endless":
            yield from itertools.repeat('{"id":"other","result":{}}\n' * 1000)
        if mode == "no code":
            yield '{"id":null,"error":{"code":0,"message":"no code"}}\n'
            return
        if mode == "null":
            yield '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no JSON"}}\n'
            return
    answer = run.answer(request)
    if request["method"] == "suggest":
        if mode == "long":
            answer = {**answer, "filler": "\u4e2d" * (1 << 17)}
        if mode == "cut" and not run.restarted:
            yield json.dumps(answer)[:50]
            raise SystemExit(1)
    yield json.dumps(answer) + "\n"


class FakeHttp:
    """The same over HTTP, in a thread. `plan` has what the next requests get instead of an answer."""

    def __init__(self, token=None, port=0):
        run, plan, connections = FakeRun(), [], set()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                step = plan.pop(0) if plan else ""
                connections.add(self.client_address)
                if token is not None and self.headers["Authorization"] != f"Bearer {token}":
                    self.respond(401, b"a token, please")
                elif step == "busy":
                    self.respond(503, b"come again")
                elif step in WRONG:
                    self.close_connection = True
                    with contextlib.suppress(OSError):
                        for piece in WRONG[step]:
                            self.wfile.write(piece)
                elif step == "before":  # the connection ends, and the request is lost
                    self.close_connection = True
                else:
                    answer = json.dumps(run.answer(json.loads(body))).encode()
                    if step == "after":  # the request has been carried out, and its answer is lost
                        self.close_connection = True
                    elif step == "half":
                        self.respond(200, answer, sent=20)
                    else:
                        self.respond(200, answer, chunked=step == "chunked")
                    self.close_connection |= step == "idle"

            def respond(self, status, body, chunked=False, sent=None):
                self.send_response(status)
                if chunked:
                    self.send_header("Transfer-Encoding", "chunked")
                    self.end_headers()
                    for piece in (body[:7], body[7:]):
                        self.wfile.write(f"{len(piece):X}\r\n".encode() + piece + b"\r\n")
                    self.wfile.write(b"0\r\n\r\n")
                else:
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body[:sent])
                self.close_connection |= sent is not None

            def log_message(self, *_):
                pass

        self.run, self.plan, self.connections = run, plan, connections
        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self.server.server_port}/run"
        self.thread = Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def main():
    mode, *rest = sys.argv[1:]
    run = FakeRun(Path(rest[1]) if rest else None)
    for line in sys.stdin:
        for text in replies(mode, run, json.loads(line)):
            sys.stdout.write(text)
            sys.stdout.flush()


if __name__ == "__main__":
    main()
