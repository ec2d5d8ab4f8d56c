"""5. Eight processes on one journal; a lock holder that dies or stops; a worker that dies with a pending trial.

    python benchmarks/reliability/writers.py [--quick] [--processes 8] [--observations 200]

All processes create the journal at once and then suggest and observe. Each logs its acknowledged results with fsync.
"""

import os
import signal
import time
from fcntl import LOCK_EX
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

from baco_like import JournalError, Optimizer, Sharing
from baco_like.journal.lock import locked


def opened(path: Path, lease: float | None = None) -> Optimizer:
    return Optimizer(SPACE, strategy="random_search", storage=path, sharing=Sharing(lease=lease))


def work(path: Path, log: Path, start: float, number: int) -> None:
    acknowledged = Log(log)
    time.sleep(max(0.0, start - time.time()))
    opt = opened(path)
    for _ in range(number):
        trial = opt.suggest()
        observe(opt, trial)
        acknowledged.write([trial.id, known(opt)[trial.id]])


def together(report: Report, folder: Path, processes: int, number: int) -> None:
    path, start = folder / "run.jsonl", time.time() + 0.3
    logs = [folder / f"{i}.log" for i in range(processes)]
    children = [forked(partial(work, path, log, start, number)) for log in logs]
    ended = [os.waitpid(child, 0)[1] for child in children]
    report.check(ended == [0] * processes, f"processes have died: {ended}")
    told = [entry for log in logs for entry in entries(log)]
    seen = known(Optimizer.load(path))
    ids = [trial_id for trial_id, _ in told]
    report.check(len(told) == processes * number, f"{len(told)} results were acknowledged")
    report.check(len(set(ids)) == len(ids), "an id was given twice")
    report.check(seen == dict(told), "the journal differs from the acknowledged results")
    configs = {repr(result[0]) for result in seen.values()}
    report.check(len(configs) == len(seen), "a configuration was evaluated twice")
    report.figure(
        f"{processes} processes with {number} observations each, creating the journal at once: "
        f"{len(seen)} results, {len(seen) - len(set(ids))} ids twice, {time.time() - start:.0f} s"
    )


def hold(path: Path, sign: Path) -> None:
    with locked(path, os.O_RDWR, LOCK_EX):
        sign.touch()
        time.sleep(60)


def holder(folder: Path, path: Path) -> int:
    """Start a process that holds the journal's lock, and return its process id."""
    sign = folder / "held"
    sign.unlink(missing_ok=True)
    child = forked(partial(hold, path, sign))
    while not sign.exists():
        time.sleep(0.001)
    return child


def holders(report: Report, folder: Path, times: int, longest: float) -> None:
    """Check that a dead or stopped holder delays the others by less than ``longest`` seconds."""
    path, killed, stopped = folder / "locked.jsonl", [], []
    opt = opened(path)
    for _ in range(times):
        child = holder(folder, path)
        began = time.monotonic()
        os.kill(child, signal.SIGKILL)
        observe(opt, opt.suggest())
        killed.append(time.monotonic() - began)
        os.waitpid(child, 0)
    for _ in range(max(1, times // 10)):
        child, before = holder(folder, path), path.read_bytes()
        os.kill(child, signal.SIGSTOP)
        began = time.monotonic()
        try:
            opt.suggest()
        except JournalError as error:
            report.check(f"kill -CONT {child}" in str(error), f"not named: {error}")
        else:
            report.check(False, "a suggestion although another holds the lock")
        stopped.append(time.monotonic() - began)
        report.check(path.read_bytes() == before, "written without the lock")
        kill(child)
        observe(opt, opt.suggest())
    report.check(
        max(killed) < longest, f"a killed holder has delayed the others by {max(killed):.2f} s"
    )
    report.check(
        max(stopped) < longest, f"a stopped holder has delayed the others by {max(stopped):.2f} s"
    )
    report.figure(
        f"lock holder killed, {times} times: suggest and observe within {max(killed):.3f} s"
    )
    report.figure(f"lock holder stopped: an error that names it within {max(stopped):.3f} s")


def die_with_a_trial(path: Path, lease: float) -> None:
    opened(path, lease).suggest()


def leases(report: Report, folder: Path, lease: float) -> None:
    path = folder / "leased.jsonl"
    os.waitpid(forked(partial(die_with_a_trial, path, lease)), 0)
    lost = Optimizer.load(path).pending[0]
    opt = opened(path, lease)
    waited: float | None = None
    while waited is None and time.time() < lost.until + 60:
        trial = opt.suggest()
        if trial.id == lost.id:
            waited = time.time() - lost.until
            report.check(dict(trial) == dict(lost), "another configuration under the same number")
        observe(opt, trial)
        time.sleep(0.01)
    report.check(waited is not None and waited >= 0, f"offered again after {waited} s")
    if waited is not None:
        report.figure(
            f"a dead worker's trial was offered again {waited:.3f} s after its lease of {lease} s"
        )


def main() -> None:
    args = arguments(__doc__, processes=8, observations=200)
    processes = chosen(args.processes, args.quick, 4, 8)
    number = chosen(args.observations, args.quick, 10, 200)
    report = Report()
    with scratch() as folder:
        together(report, folder, processes, number)
        # As a test, only a hang is a violation: a lock is given up after a minute.
        holders(report, folder, *((3, 30.0) if args.quick else (50, 1.0)))
        leases(report, folder, 0.2 if args.quick else 2.0)
    report.end()


if __name__ == "__main__":
    main()
