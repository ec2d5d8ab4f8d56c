"""14. Several optimizers, each with threads and proposals in store, share a journal and are killed: nothing is lost.

    python benchmarks/reliability/members.py [--quick] [--kills 60] [--members 6]

Each member is a process with a name. Four of its threads suggest, evaluate and observe, while a fifth one computes
proposals. A thread logs each acknowledged result, and up to which byte the journal was on the disk at that moment. The
parent kills a member at a random moment (SIGKILL) and starts it again under the same name. At the end, the journal must
hold every acknowledged result with its value, each number and each configuration once. The line of each result must
end before the byte that was on the disk when it was acknowledged, so that a power cut would not have lost it.
"""

import json
import os
import random
import threading
import time
from functools import partial
from pathlib import Path

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
)

from baco_like import Optimizer, Sharing

THREADS = 4
LEASE = 0.5
"""Seconds after which the trials of a killed member are suggested again."""

STRATEGY = "random_search"
"""Fast, so that most kills come during writes; fits in the background are those of `kills.py`."""

LONGEST = 1.0
"""Seconds after which a member is killed at the latest."""


class Disk:
    """Notes up to which byte the journal is on the disk."""

    def __init__(self, path: Path) -> None:
        self.path, self.size, self.calls = path, 0, 0
        self._lock, self._fsync = threading.Lock(), os.fsync
        os.fsync = self._measure  # type: ignore[assignment]

    def _measure(self, fd: int) -> None:
        status = os.fstat(fd)
        self._fsync(fd)
        if self.path.exists() and os.path.samestat(status, self.path.stat()):
            with self._lock:
                self.size = max(self.size, status.st_size)
                self.calls += 1


def opened(path: Path, name: str | None = None) -> Optimizer:
    sharing = Sharing(name, LEASE, ahead=3)
    return Optimizer(SPACE, seed=3, storage=path, strategy=STRATEGY, sharing=sharing)


def work(path: Path, log: Path, name: str, number: int) -> None:
    """Evaluate with several threads until the journal has a number of results."""
    disk, acknowledged = Disk(path), Log(log)
    optimizer = opened(path, name)

    def evaluate() -> None:
        while len(optimizer.trials) < number:
            trial = optimizer.suggest()
            observe(optimizer, trial)
            size = disk.size
            acknowledged.write([trial.id, known(optimizer)[trial.id], size])

    threads = [threading.Thread(target=evaluate) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def line_ends(path: Path) -> dict[int, int]:
    """Return the byte behind the line of each result, by the number of its trial."""
    ends, place = {}, 0
    for line in path.read_bytes().splitlines(keepends=True):
        place += len(line)
        for row in json.loads(line).get("outcomes", []):
            ends[row["id"]] = place
    return ends


def check(report: Report, path: Path, logs: list[Path]) -> int:
    """Compare the journal with the logs of the members; return the number of acknowledged results."""
    optimizer = Optimizer.load(path)
    seen, ends = known(optimizer), line_ends(path)
    told = [entry for log in logs for entry in entries(log)]
    for trial_id, result, size in told:
        report.check(seen.get(trial_id) == result, f"result {trial_id} is lost or changed")
        report.check(ends.get(trial_id, 1 << 60) <= size, f"{trial_id} was not on the disk")
    report.check(len(seen) == len(optimizer.trials), "a number came twice")
    first = [repr(dict(trial)) for trial in optimizer.trials if trial.origin != "late"]
    report.check(len(set(first)) == len(first), "a configuration was suggested twice")
    return len(told)


def main() -> None:
    args = arguments(__doc__, kills=60, members=6)
    kills = chosen(args.kills, args.quick, 3, 60)
    members = chosen(args.members, args.quick, 2, 6)
    report, rng = Report(), random.Random(args.seed)
    with scratch() as folder:
        path, killed, running = folder / "run.jsonl", 0, {}
        opened(path)
        logs = [folder / f"{i}.log" for i in range(members)]

        def start(i: int, number: int) -> None:
            running[i] = forked(partial(work, path, logs[i], f"member{i}", number))

        for i in range(members):
            start(i, 1 << 30)
        while killed < kills:
            time.sleep(rng.uniform(0, LONGEST))
            i = rng.randrange(members)
            kill(running[i])
            killed += 1
            start(i, 1 << 30)
        for child in running.values():
            kill(child)
        number = len(Optimizer.load(path).trials) + 2 * members
        for i in range(members):
            start(i, number)
        ended = [os.waitpid(child, 0)[1] for child in running.values()]
        report.check(ended == [0] * members, f"members have died: {ended}")
        results = check(report, path, logs)
        report.figure(
            f"{members} members with {THREADS} threads, {killed + members} kills: {results} acknowledged results, all "
            "in the journal, and on the disk before they were acknowledged"
        )
    report.end()


if __name__ == "__main__":
    main()
