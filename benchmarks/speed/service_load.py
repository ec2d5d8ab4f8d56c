"""How busy does one server keep many clients over HTTP, and what does a round trip cost?

    OMP_NUM_THREADS=1 python benchmarks/speed/service_load.py [--workers 64] [--seconds 0.5] [--results 2000]
        [--strategies auto,random_search] [--ahead 48] [--patience 0.05]
    OMP_NUM_THREADS=1 python benchmarks/speed/service_load.py --workers 1000 --connections 100 --seconds 10
    OMP_NUM_THREADS=1 python benchmarks/speed/service_load.py --trips 300

A server is started with its journal on the disk. Each worker asks for a trial, sleeps as an evaluation would, and
reports the value. With `--connections`, that many threads do this for all workers by turns, as workers that connect
again for each message. `busy` is the share of the workers' time, from the first request to the last report, in which
they slept. Server and workers share the machine.

`--trips` measures one client alone: the median of a request over HTTP, and of the same request in one process
(`Service.answer`), so that the difference is what the service adds to the model's time.
"""

import os

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_threads] = "1"

import argparse
import contextlib
import heapq
import itertools
import json
import math
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from baco_like.journal.remote import Connection

SPACE = {f"p{i}": {"type": "ordinal", "values": [2**k for k in range(6)]} for i in range(10)}


def value_of(config: dict[str, int]) -> float:
    """Return a smooth value with an interaction, in the place of a measurement."""
    levels = [math.log2(config[f"p{i}"]) for i in range(10)]
    return sum((level - 2.5 - 0.2 * i) ** 2 for i, level in enumerate(levels)) + abs(
        levels[0] - levels[1]
    )


def _cpu_of(pid: int) -> float:
    with contextlib.suppress(OSError):
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


class Server:
    """A started server.

    Attributes:
        url: Its address.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self._process = process
        self.url = process.stdout.readline().split()[-1].rstrip("/")

    def cpu(self) -> tuple[float, float]:
        """Return the CPU seconds that it, and the process of the model, have used; 0 where there is no /proc."""
        pid = self._process.pid
        children: list[int] = []
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):  # a thread has ended
                children += map(int, task.read_text().split())
        return _cpu_of(pid), sum(map(_cpu_of, children))


@contextlib.contextmanager
def serving(folder: str, connections: int) -> Iterator[Server]:
    """Start a server, and end it."""
    words = ["-m", "baco_like", "serve", "--http", "127.0.0.1:0", "--folder", folder]
    words += ["--limit", f"most_connections={connections + 10}"]
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True)
    try:
        yield Server(process)
    finally:
        process.terminate()
        process.wait()


def tables(strategy: str, ahead: int, patience: float | None) -> dict[str, Any]:
    store: dict[str, Any] = {"ahead": ahead} if ahead and strategy != "random_search" else {}
    if store and patience is not None:
        store["patience"] = patience
    return {"space": SPACE, "optimizer": {"strategy": strategy, "seed": 1, **store}}


class Plain:
    """A connection that costs little: the load generator shares the machine with the server.

    Args:
        url: The run.
    """

    def __init__(self, url: str) -> None:
        _, _, authority, name = url.split("/")
        host, _, port = authority.partition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._head = f"POST /{name} HTTP/1.1\r\nHost: {authority}\r\nContent-Length: "
        self._prefix, self._numbers = f"{random.getrandbits(64):x}", itertools.count()

    def call(self, method: str, **params: Any) -> Any:
        """Return the result of a request."""
        identity = {"jsonrpc": "2.0", "id": f"{self._prefix}-{next(self._numbers)}"}
        body = json.dumps({**identity, "method": method, "params": params})
        self._socket.sendall(f"{self._head}{len(body)}\r\n\r\n{body}".encode())
        head, answer = b"", b""
        while not answer:
            head += self._socket.recv(2**16)
            head, _, answer = head.partition(b"\r\n\r\n")
        length = int(head.partition(b"Content-Length: ")[2].split()[0])
        while len(answer) < length:
            answer += self._socket.recv(2**16)
        return json.loads(answer)["result"]


class Load:
    """Workers that ask, sleep and report, served by threads with a connection each.

    Args:
        url: The run.
        workers: Number of workers.
        connections: Number of threads.
        seconds: Mean of an evaluation; it lasts from 0.8 to 1.2 times as long.
        results: Number of results after which no worker begins another trial.
    """

    def __init__(
        self, url: str, workers: int, connections: int, seconds: float, results: int
    ) -> None:
        self.url, self.seconds, self.results = url, seconds, results
        self.workers, self.connections = workers, connections
        self.waits: list[float] = []
        self.phases: list[str] = []
        self.slept, self.begun = 0.0, 0
        self.changed = threading.Condition()
        # When each worker is free, with its number and the trial that it has evaluated.
        self.free: list[tuple[float, int, dict[str, Any] | None]] = []
        self.finished = 0

    def run(self) -> dict[str, float]:
        started = time.monotonic()
        # The workers of a job do not start at the same moment.
        spread = min(self.seconds, 2.0)
        self.free = [(started + spread * i / self.workers, i, None) for i in range(self.workers)]
        heapq.heapify(self.free)
        threads = [threading.Thread(target=self._serve) for _ in range(self.connections)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        waits = sorted(self.waits)
        return {
            "results": self.begun,
            "busy": self.slept / sum((self.slept, *waits)),
            "median ms": 1e3 * statistics.median(waits),
            "99 % ms": 1e3 * waits[int(0.99 * len(waits))],
            "per second": self.begun / (time.monotonic() - started),
        }

    def _serve(self) -> None:
        connection = Plain(self.url)
        rng = random.Random(threading.get_ident())
        while True:
            with self.changed:
                while not self.free or self.free[0][0] > time.monotonic():
                    if self.finished == self.workers:
                        return
                    nap = self.free[0][0] - time.monotonic() if self.free else 1.0
                    self.changed.wait(max(0.0, nap))
                due, worker, trial = heapq.heappop(self.free)
                more = self.begun < self.results
                self.begun += more
            name = f"worker-{worker}"
            if trial is not None:
                connection.call(
                    "observe", client=name, trial=trial["id"], value=value_of(trial["config"])
                )
            if more:
                (trial,) = connection.call("suggest", client=name, n=1)["trials"]
            now = time.monotonic()
            with self.changed:
                self.waits.append(now - due)
                if more:
                    nap = self.seconds * rng.uniform(0.8, 1.2)
                    self.slept += nap
                    heapq.heappush(self.free, (now + nap, worker, trial))
                else:
                    self.finished += 1
                self.changed.notify_all() if self.finished == self.workers else self.changed.notify()


def measure_load(args: argparse.Namespace) -> None:
    connections = args.connections or args.workers
    rows = []
    for strategy in args.strategies.split(","):
        with tempfile.TemporaryDirectory() as folder, serving(folder, connections) as server:
            url = f"{server.url}/load"
            Connection(url).call("open", **tables(strategy, args.ahead, args.patience))
            load = Load(url, args.workers, connections, args.seconds, args.results)
            before = *server.cpu(), time.process_time()
            row = load.run()
            for name, used, earlier in zip(
                ("server", "model", "workers"),
                (*server.cpu(), time.process_time()),
                before,
                strict=True,
            ):
                row[name] = 1e3 * (used - earlier) / row["results"]
            events = [
                json.loads(line) for line in (Path(folder) / "load.jsonl").read_text().splitlines()
            ]
            trials = [t for e in events if e["event"] == "suggested" for t in e["trials"]]
            draws = sum((t["tag"] or {}).get("phase") == "fallback" for t in trials)
            best = min(
                o["value"] for e in events if e["event"] == "observed" for o in e["outcomes"]
            )
        rows.append((strategy, row, draws / len(trials), best))
    print(f"{args.workers} workers, {connections} connections, {args.seconds:g} s each")
    columns = ["strategy", "results", "busy", "wait, median", "99 %", "results/s"]
    columns += ["CPU of the server", "of the model", "of the workers", "without a model", "best"]
    print(f"| {' | '.join(columns)} |")
    print("|---|" + "---:|" * (len(columns) - 1))
    for strategy, row, draws, best in rows:
        print(
            f"| {strategy} | {row['results']:,} | {row['busy']:.1%} | {row['median ms']:.1f} ms | "
            f"{row['99 % ms']:.1f} ms | {row['per second']:.0f} | {row['server']:.1f} ms | "
            f"{row['model']:.1f} ms | {row['workers']:.1f} ms | {draws:.1%} | {best:.2f} |"
        )


def medians_ms(call: Callable[[Any], Any], connections: list[Any], trips: int) -> list[float]:
    """Return the median milliseconds of a call over each connection; they take turns."""
    times: list[list[float]] = [[] for _ in connections]
    for _ in range(trips):
        for each, own in zip(connections, times, strict=True):
            started = time.perf_counter()
            call(each)
            own.append(time.perf_counter() - started)
    return [1e3 * statistics.median(own) for own in times]


def measure_trips(trips: int) -> None:
    from baco_like.service.methods import Service
    from baco_like.service.runs import Runs

    class Inside:
        """A connection without a network."""

        def __init__(self, folder: str) -> None:
            self.service, self.numbers = Service(Runs(Path(folder))), itertools.count()

        def call(self, method: str, **params: Any) -> Any:
            request = {"jsonrpc": "2.0", "id": f"inside-{next(self.numbers)}", "method": method}
            given = {"run": "trips", "client": "inside", **params}
            line = json.dumps({**request, "params": given}).encode()
            return json.loads(self.service.answer(line))["result"]

    def step(connection: Any) -> None:
        (trial,) = connection.call("suggest")["trials"]
        connection.call("observe", trial=trial["id"], value=value_of(trial["config"]))

    print("| requests | in one process | over HTTP | added |")
    print("|---|---:|---:|---:|")
    for strategy in ("random_search", "auto"):
        with (
            tempfile.TemporaryDirectory() as one,
            tempfile.TemporaryDirectory() as other,
            serving(other, 1) as server,
        ):
            pair: list[Any] = [Inside(one), Connection(f"{server.url}/trips")]
            for each in pair:
                each.call("open", **tables(strategy, 0, None))
            for name, call in (
                (f"suggest and observe, {strategy}", step),
                ("best", lambda each: each.call("best")),
                ("status", lambda each: each.call("status")),
            ):
                inside, outside = medians_ms(call, pair, trips)
                added = f"{outside - inside:.2f} ms"
                print(f"| {name} | {inside:.2f} ms | {outside:.2f} ms | {added} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--connections", type=int)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--results", type=int, default=2000)
    parser.add_argument("--strategies", default="auto,random_search")
    parser.add_argument("--ahead", type=int, default=48)
    parser.add_argument("--patience", type=float, default=0.05)
    parser.add_argument("--trips", type=int, help="measure so many round trips instead")
    args = parser.parse_args()
    if args.trips:
        measure_trips(args.trips)
    else:
        measure_load(args)


if __name__ == "__main__":
    main()
