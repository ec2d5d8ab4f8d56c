"""4. Let the disk be full in every write: an error, older bytes unchanged, usable afterwards.

    python benchmarks/reliability/full_disk.py [--quick]

A child limits the size of its files (RLIMIT_FSIZE) to the size of the journal plus 0, 1, 2, ... bytes, up to the size
of the next event, and calls each method. Then it removes the limit and repeats the call.
"""

import os
import resource
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from harness import SPACE, Report, arguments, forked, observe, scratch

from baco_like import JournalError, Optimizer

Step = Callable[[Optimizer], object]

STEPS: dict[str, Step] = {
    "suggest": lambda opt: opt.suggest(),
    "suggest(5)": lambda opt: opt.suggest(5),
    "observe": lambda opt: observe(opt, opt.pending[0]),
    "abandon": lambda opt: opt.abandon(opt.pending[0], "on purpose"),
    "enqueue": lambda opt: opt.enqueue(SPACE.sample(1, seed=9)[0]),
}


def limit(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def opened(path: Path) -> Optimizer:
    return Optimizer(SPACE, strategy="random_search", storage=path)


def started(path: Path) -> Optimizer:
    path.unlink(missing_ok=True)
    opt = opened(path)
    observe(opt, opt.suggest())
    opt.suggest(2)
    return opt


def state(opt: Optimizer) -> str:
    return repr((opt.trials, opt.pending, [*opt.history.queue]))


def tried(step: Step, path: Path, every: int) -> None:
    """Check that the step fails for each missing number of bytes, and succeeds without the limit."""
    opt = started(path)
    step(opt)
    size, wanted = path.stat().st_size, state(opt)
    opt = started(path)
    before, known = path.read_bytes(), state(opt)
    for room in range(0, size - len(before), every):
        limit(len(before) + room)
        try:
            step(opt)
        except JournalError:
            pass
        else:
            raise AssertionError("no error although the disk is full")
        assert path.read_bytes() == before, "older bytes have changed"
        assert state(opt) == known, "what is known has changed"
    limit(resource.RLIM_INFINITY)
    step(opt)
    assert state(opt) == wanted == state(Optimizer.load(path)), "not usable afterwards"


def created(path: Path, every: int) -> None:
    path.unlink(missing_ok=True)
    opened(path)
    size = path.stat().st_size
    path.unlink()
    for room in range(0, size, every):
        limit(room)
        try:
            opened(path)
        except JournalError:
            continue
        raise AssertionError("no error although the disk is full")
    limit(resource.RLIM_INFINITY)
    opened(path).suggest()


def main() -> None:
    args, report = arguments(__doc__), Report()
    every = 29 if args.quick else 1
    # Events have their time, and its number of digits varies: the clock stands still, so that equal events have equal
    # sizes.
    time.time = lambda: 1_700_000_000.125
    with scratch() as folder:
        path = folder / "run.jsonl"
        works = {name: partial(tried, step, path, every) for name, step in STEPS.items()}
        works["creating the journal"] = partial(created, path, every)
        for name, work in works.items():
            _, status = os.waitpid(forked(work), 0)
            report.check(status == 0, f"{name}: see the child's message")
    report.figure(f"{', '.join(works)}: failed cleanly at every size (in steps of {every} bytes)")
    report.end()


if __name__ == "__main__":
    main()
