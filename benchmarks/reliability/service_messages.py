"""16. Mutated messages, cut connections, slow clients, wrong tokens and large bodies: clear errors, bounded memory.

    python benchmarks/reliability/service_messages.py [--quick] [--messages 20000] [--seed 0]

A server over HTTP in a process of its own gets mutated messages of every method. Between them are connections that end
in a message, connections that send one byte now and then, more idle connections than it allows, wrong tokens, other
requests than those of the protocol, and bodies that are declared, or really are, a gigabyte large. Every complete
message must get one answer of the protocol. An honest client works all the time: its results must all be in its
journal. The token must not be in any answer, log or file.
"""

import json
import os
import random
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from harness import SPACE, Report, arguments, chosen, forked, kill, known, scratch, value
from mutations import CANARY, json_changed

from baco_like import Optimizer
from baco_like.service.http import HttpServer
from baco_like.service.messages import ERRORS, Limits
from baco_like.service.methods import Service
from baco_like.service.runs import Runs

TOKEN = "a-token-that-nobody-may-see-4711"

MEMORY = 400
"""MB by which the memory of the server may grow."""

PATIENCE = 60.0
"""Seconds within which an answer must come."""

CONNECTIONS = 32

GIB = 2**30

TABLES = {"space": SPACE.to_dict(), "optimizer": {"strategy": "random_search", "seed": 3}}

MESSAGES: list[tuple[str, dict[str, Any]]] = [
    ("hello", {"version": 1}),
    ("open", TABLES),
    ("open", {**TABLES, "budget": {"evaluations": 9, "no_improvement": 5}, "lease": 5.0}),
    ("open", {"space": {"t": {"type": "ordinal", "values": [1, 2], "default": 1},
                        "u": {"type": "integer", "low": 1, "high": 9, "when": "t == 2"}},
              "constraints": {"known": ["t * u <= 9"]}, "objective": {"name": "x", "unit": "s"},
              "optimizer": {"strategy": "genetic_algorithm", "population": 8}}),
    ("suggest", {"n": 2}),
    ("observe", {"trial": 1, "values": [1.5, 2], "metrics": {"size": 4}, "extra": {"a": [1]}, "seconds": 2}),
    ("observe", {"trial": 2, "failed": "compile", "message": "no", "program": "5be1"}),
    ("claim", {"config": {"tile": 8, "unroll": 4, "eps": 0.01, "flag": "-O2", "order": ["i", "j", "k"]}}),
    ("enqueue", {"config": {"tile": 4, "unroll": 8, "eps": 0.01, "flag": "-O3", "order": ["k", "j", "i"]}}),
    ("abandon", {"trial": 3, "reason": "x"}),
    ("heartbeat", {"trials": [1, 2, 3]}),
    ("best", {}),
    ("front", {}),
    ("recommend", {"weights": {"value": 1}, "limits": ["size <= 3"]}),
    ("why", {"trial": 1}),
    ("importance", {"quantile": 0.5}),
    ("status", {}),
    ("describe", {}),
    ("events", {"after": 1, "most": 3}),
    ("append", {"event": {"event": "abandoned", "id": 3, "reason": "x"}, "after": 4}),
]  # fmt: skip


def serve(folder: Path, ready: int) -> None:
    """Answer requests until the process is killed."""
    with (folder / "log").open("wb") as log:
        os.dup2(log.fileno(), 2)
    limits = Limits(most_runs=8, most_connections=CONNECTIONS, arrival=1.0)
    server = HttpServer(Service(Runs(folder / "runs", limits=limits)), "127.0.0.1", 0, TOKEN)
    os.write(ready, struct.pack("i", server.server_address[1]))
    server.serve_forever()


def peak(process: int) -> int:
    """Return the largest MB of resident memory of a process."""
    words = Path(f"/proc/{process}/status").read_text().split()
    return int(words[words.index("VmHWM:") + 1]) // 1024


class Attack:
    """Sends what a server must endure.

    Attributes:
        sent: Number of inputs of each kind.
        words: The error words of answers.
    """

    def __init__(self, port: int, report: Report, rng: random.Random) -> None:
        self.sent: dict[str, int] = {}
        self.words: set[str] = set()
        self._address, self._report, self._rng = ("127.0.0.1", port), report, rng
        self._connection = HTTPConnection(*self._address, timeout=PATIENCE)
        self._slow: list[socket.socket] = []
        self._honest, self._number = 0, 0

    def message(self) -> bytes:
        """Return a valid message."""
        method, params = self._rng.choice(MESSAGES)
        self._number += 1
        request = {"jsonrpc": "2.0", "id": f"m-{self._number}", "method": method}
        params = {"run": "open", **params, "client": self._rng.choice("abc")}
        return json.dumps({**request, "params": params}).encode()

    def post(self, body: bytes, **headers: str) -> tuple[int, bytes]:
        """Return the status and the body of an answer."""
        headers = {"Authorization": f"Bearer {TOKEN}", **headers}
        for attempt in range(3):
            try:
                self._connection.request("POST", "/", body, headers)
                answer = self._connection.getresponse()
                return answer.status, answer.read()
            except (OSError, HTTPException):  # the connection was idle, and a new one has its place
                self._connection.close()
                if attempt == 2:
                    raise
        raise AssertionError

    def raw(self, text: bytes) -> socket.socket:
        """Send bytes on a new connection."""
        connection = socket.create_connection(self._address, timeout=PATIENCE)
        with suppress(OSError):
            connection.sendall(text)
        return connection

    def head(self, length: int | str) -> bytes:
        lines = ["POST / HTTP/1.1", "Host: localhost", f"Authorization: Bearer {TOKEN}"]
        return "\r\n".join([*lines, f"Content-Length: {length}", "", ""]).encode()

    def mutated(self) -> None:
        body = json_changed(self.message(), [self.message()], self._rng)
        status, text = self.post(body)
        answer = json.loads(text)
        holds = status == 200 and ("result" in answer) != ("error" in answer)
        if "error" in answer:
            error = answer["error"]
            word = error["data"]["error"]
            self.words.add(word)
            holds &= ERRORS[word] == error["code"] and 0 < len(error["message"]) <= 2000
            holds &= word != "internal" and "/runs/" not in error["message"]
        self._report.check(holds, f"{body[:300]!r}: {status} {text[:300]!r}")

    def cut(self) -> None:
        """End a connection in a message, in half of the cases by a reset, or do not read the answer."""
        text = self.message()
        text = self.head(len(text)) + text
        with self.raw(text[: self._rng.randrange(len(text) + 1)]) as connection:
            if self._rng.random() < 0.5:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            elif self._rng.random() < 0.5:
                connection.shutdown(socket.SHUT_WR)

    def slow(self) -> None:
        """Send one byte of each slow connection, and begin another one."""
        if len(self._slow) >= CONNECTIONS // 2:
            self._slow.pop(0).close()
        self._slow.append(self.raw(self.head(9)[: self._rng.randrange(40)]))
        for connection in self._slow:
            with suppress(OSError):
                connection.send(b"x")

    def idle(self) -> None:
        """Open more connections than allowed, and leave them for a moment."""
        connections = [self.raw(b"") for _ in range(3 * CONNECTIONS)]
        self.honest()
        for connection in connections:
            connection.close()

    def intruder(self) -> None:
        token = self._rng.choice(["", "Bearer", TOKEN, f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}"])
        status, text = self.post(self.message(), Authorization=token)
        self._report.check(status == 401 and b"error" in text, f"token {token!r}: {status}")

    def wrong_http(self) -> None:
        head = json_changed(
            self.head(9), [b"Transfer-Encoding: chunked\r\n", b"Host: a\r\n"], self._rng
        )
        with self.raw(head + b"\r\n\r\n{}" * 9) as connection:
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(64)
        self._report.check(answer == b"" or answer.startswith(b"HTTP/1."), f"{head!r}: {answer!r}")

    def declared(self) -> None:
        """Declare a large body; the answer comes before the body does."""
        length = self._rng.choice([GIB, 2**20 + 1, "-1", "1e9", "9" * 30, "0x10", " 5 5"])
        with self.raw(self.head(length)) as connection:
            status = connection.recv(64)[9:12]
        self._report.check(status in (b"413", b"400"), f"Content-Length {length}: {status!r}")

    def large(self, head: bytes) -> None:
        """Send a gigabyte, until the server no longer takes it."""
        with self.raw(head) as connection, suppress(OSError):
            for _ in range(GIB // 2**20):
                connection.sendall(b"[" * 2**20)

    def honest(self) -> None:
        """Suggest and observe in another run, as a client that belongs."""
        (trial,) = self.call("suggest")["trials"]
        found = value(trial["config"])
        outcome = {"failed": "compile"} if found is None else {"value": found}
        self.call("observe", trial=trial["id"], **outcome)
        self._honest += 1
        observed = self.call("status")["observed"]
        self._report.check(observed == self._honest, f"{observed} results, not {self._honest}")

    def call(self, method: str, **params: Any) -> Any:
        self._number += 1
        request = {"jsonrpc": "2.0", "id": f"h-{self._number}", "method": method}
        params = {"run": "honest", "client": "honest", **params}
        _, text = self.post(json.dumps({**request, "params": params}).encode())
        answer = json.loads(text)
        self._report.check("result" in answer, f"{method}: {text[:500]!r}")
        return answer["result"]

    def run(self, messages: int) -> int:
        """Send so many mutated messages and the other inputs between them; return the results of the honest client."""
        self.call("open", **TABLES)
        others: list[tuple[float, Callable[[], None]]] = [
            (0.05, self.cut), (0.02, self.slow), (0.02, self.honest), (0.005, self.intruder),
            (0.005, self.declared), (0.01, self.wrong_http), (0.0005, self.idle),
        ]  # fmt: skip
        for number in range(messages):
            kinds = [kind for share, kind in others if number == 0 or self._rng.random() < share]
            for kind in (self.mutated, *kinds):
                self.sent[kind.__name__] = self.sent.get(kind.__name__, 0) + 1
                kind()
        for head in (self.head(GIB), b"POST /" + b"x" * 2**20, b"POST / HTTP/1.1\r\nX: "):
            self.large(head)
        self.honest()
        for connection in (self._connection, *self._slow):
            connection.close()
        return self._honest


def main() -> None:
    args = arguments(__doc__, messages=20_000)
    messages, report = chosen(args.messages, args.quick, 300, 20_000), Report()
    with scratch() as folder:
        listening, ready = os.pipe()
        server = forked(partial(serve, folder, ready))
        try:
            port = struct.unpack("i", os.read(listening, 4))[0]
            before = peak(server)
            attack = Attack(port, report, random.Random(args.seed))
            honest = attack.run(messages)
            grown = peak(server) - before
        finally:
            kill(server)
        report.check(grown <= MEMORY, f"the memory has grown by {grown} MB")
        found = known(Optimizer.load(folder / "runs" / "honest.jsonl"))
        report.check(len(found) == honest, f"{len(found)} results in the journal, not {honest}")
        log = (folder / "log").read_text()
        report.check("Traceback" not in log, log[-2000:])
        written = [path for path in folder.rglob("*") if path.is_file()]
        report.check(not any(TOKEN.encode() in p.read_bytes() for p in written), "the token leaks")
        traces = [*folder.rglob(f"*{CANARY}*"), *Path.cwd().glob(f"*{CANARY}*")]
        report.check(not traces, f"traces: {traces}")
    kinds = ", ".join(f"{count} {kind}" for kind, count in attack.sent.items())
    report.figure(f"inputs: {kinds.replace('_', ' ')}; three of a gigabyte")
    report.figure(f"errors: {', '.join(sorted(attack.words))}")
    report.figure(f"{honest} results of an honest client, all in its journal")
    report.figure(f"memory of the server: {grown} MB more than at its start")
    report.end()


if __name__ == "__main__":
    main()
