"""15. Kill a client or its server 200 times at random moments: each result counts once.

    python benchmarks/reliability/service_kills.py [--quick] [--kills 200]

A client starts ``baco-like serve --json`` as its child, as a compiler does, and logs, with fsync, every answer that it
gets. The parent kills the client or the server (SIGKILL) after a random time. A client whose server has ended starts
another one and sends its last request again, with the same id. A client that was killed has forgotten everything; the
next one suggests and observes in the same loop. After each kill, the journal must hold every acknowledged result. A
whole run must have the same suggestions, in the same order, as an undisturbed Python program.
"""

import json
import os
import random
import secrets
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from harness import (
    SPACE,
    Log,
    Report,
    arguments,
    chosen,
    entries,
    forked,
    kill,
    known,
    observe,
    scratch,
    value,
)

from baco_like import Optimizer, Search, Trial
from baco_like.service.methods import Service
from baco_like.service.runs import Runs
from baco_like.service.stdio import serve_lines

LONGEST = 0.6
"""Seconds after which a process is killed at the latest."""


def serve(path: Path, incoming: int, outgoing: int) -> None:
    """Answer the lines of a pipe, as ``baco-like serve --json --journal PATH`` does."""
    runs = Runs(journal=path, suggests_again=True)
    requests, answers = os.fdopen(incoming, "rb"), os.fdopen(outgoing, "wb")
    with suppress(BrokenPipeError), requests, answers:
        serve_lines(Service(runs), requests, answers)


class Client:
    """Sends requests to a server that it starts, and starts it again when it has ended."""

    def __init__(self, path: Path, pid_file: Path) -> None:
        self._path, self._pid_file = path, pid_file
        self._prefix, self._number = secrets.token_hex(8), 0
        self._start()

    def _start(self) -> None:
        theirs, ours = os.pipe()
        answers, outgoing = os.pipe()

        def work() -> None:
            os.close(ours)
            os.close(answers)
            serve(self._path, theirs, outgoing)

        child = forked(work)
        os.close(theirs)
        os.close(outgoing)
        self._requests, self._answers = os.fdopen(ours, "wb", 0), os.fdopen(answers, "rb")
        self._pid_file.write_text(str(child))

    def call(self, method: str, **params: Any) -> Any:
        """Return the result of a request; it is sent again until there is one."""
        self._number += 1
        request = {"jsonrpc": "2.0", "id": f"{self._prefix}-{self._number}", "method": method}
        line = json.dumps({**request, "params": params}).encode() + b"\n"
        while True:
            answer = b""
            with suppress(OSError):
                self._requests.write(line)
                answer = self._answers.readline()
            if answer.endswith(b"\n"):
                found = json.loads(answer)
                if "result" in found:
                    return found["result"]
                if found["error"]["data"]["error"] != "journal":  # an earlier server ends just now
                    raise RuntimeError(found)
                time.sleep(0.02)
            else:
                self._requests.close()
                self._answers.close()
                self._start()


def go_on(tables: dict[str, Any], length: int, path: Path, log: Path, pid_file: Path) -> None:
    """Suggest and observe until the run is complete; what an earlier client had pending comes first."""
    acknowledged, client = Log(log), Client(path, pid_file)
    client.call("open", **tables)
    while client.call("status")["observed"] < length:
        (trial,) = client.call("suggest")["trials"]
        acknowledged.write(["suggested", trial["id"], trial["config"]])
        found = value(trial["config"])
        outcome: dict[str, Any] = {"failed": "compile", "message": "on purpose"}
        if found is not None:
            outcome = {"values": [found, found * 1.5, found]}
        done = client.call("observe", trial=trial["id"], **outcome)["trial"]
        acknowledged.write(["observed", done["id"], done.get("value"), done.get("failed")])


def check(report: Report, path: Path, log: Path) -> int:
    """Compare the journal with the acknowledged answers; return the number of results among them."""
    told = entries(log)
    if not path.exists() or not path.stat().st_size:
        report.check(not told, "the journal is gone")
        return 0
    optimizer = Optimizer.load(path)
    results, trials = known(optimizer), {t.id for t in [*optimizer.trials, *optimizer.pending]}
    for kind, number, *rest in told:
        report.check(number in trials, f"trial {number} is unknown")
        if kind == "observed":
            _, found, _, failed = results.get(number, [None] * 4)
            report.check(
                [found, failed] == rest, f"the result of trial {number} is lost or changed"
            )
    return sum(entry[0] == "observed" for entry in told)


def compare(report: Report, whole: list[Trial], path: Path) -> int:
    """Compare a run with an undisturbed one; return the number of compared suggestions."""
    parts = Optimizer.load(path).trials
    report.check(len(parts) == len(whole), f"{len(parts)} results instead of {len(whole)}")
    for one, other in zip(whole, parts, strict=False):
        same = (one.id, dict(one), one.tag) == (other.id, dict(other), other.tag)
        report.check(same, f"suggestion {one.id} is another than undisturbed")
    return len(parts)


def undisturbed(seed: int, length: int) -> list[Trial]:
    whole = Optimizer(SPACE, seed=seed, strategy=Search(initial=5))
    for _ in range(length):
        observe(whole, whole.suggest())
    return whole.trials


def main() -> None:
    args = arguments(__doc__, kills=200)
    wanted, length = chosen(args.kills, args.quick, 3, 200), 8 if args.quick else 40
    rng, report = random.Random(args.seed), Report()
    kills = {"client": 0, "server": 0}
    acknowledged = compared = seed = 0
    with scratch() as folder:
        while sum(kills.values()) < wanted:
            path, log = folder / f"{seed}.jsonl", folder / f"{seed}.log"
            pid_file = folder / f"{seed}.pid"
            tables = {"space": SPACE.to_dict(), "optimizer": {"initial": 5, "seed": seed}}
            whole = undisturbed(seed, length)  # once here, so that the children need no imports
            is_done = False
            while not is_done:
                client = forked(partial(go_on, tables, length, path, log, pid_file))
                if sum(kills.values()) >= wanted:  # let the last run end
                    os.waitpid(client, 0)
                    is_done = True
                while not is_done:
                    time.sleep(rng.uniform(0, LONGEST))
                    is_done = os.waitpid(client, os.WNOHANG) != (0, 0)
                    if is_done or rng.random() < 0.5:
                        break
                    with suppress(OSError, ValueError):
                        os.kill(int(pid_file.read_text()), 9)
                        kills["server"] += 1
                if not is_done:
                    kill(client)
                    pid_file.unlink(
                        missing_ok=True
                    )  # its server ends, and the number may be given away
                    kills["client"] += 1
                count = check(report, path, log)
            acknowledged += count
            compared += compare(report, whole, path)
            seed += 1
    report.figure(
        f"{kills['client']} kills of a client and {kills['server']} of a server in {seed} runs"
    )
    report.figure(f"{acknowledged} acknowledged results looked for after each kill of their run")
    report.figure(f"{compared} suggestions compared with those of undisturbed Python programs")
    report.end()


if __name__ == "__main__":
    main()
