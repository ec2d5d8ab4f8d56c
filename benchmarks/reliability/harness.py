"""Shared by the commands of this folder: a run to damage, a log of acknowledged results, and the report.

A command ends with exit code 0 if every check holds. Otherwise it prints the violations.
"""

import os

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_threads] = "1"

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from baco_like import (
    Categorical,
    Integer,
    Optimizer,
    Ordinal,
    Permutation,
    Real,
    Space,
)

SPACE = Space(
    {
        "tile": Ordinal([1, 2, 4, 8, 16, 32, 64], log=True),
        "unroll": Integer(1, 32, default=4),
        "eps": Real(1e-6, 1e-1, log=True),
        "flag": Categorical(["-O2", "-O3", "-Ofast"]),
        "order": Permutation(["i", "j", "k"]),
    },
    constraints=["tile * unroll <= 512"],
)


def value(trial: Any) -> float | None:
    """Return the result of an evaluation of a configuration; one in eight fails."""
    if trial["unroll"] % 8 == 5:
        return None
    return (
        abs(trial["tile"] - 16) / 3
        + trial["unroll"] ** 0.5
        + trial["eps"]
        + (trial["flag"] == "-O2") / 7
        + trial["order"].index("j")
    )


def observe(optimizer: Optimizer, trial: Any) -> None:
    found = value(trial)
    if found is None:
        optimizer.observe(trial, failed="compile", message="on purpose")
    else:
        optimizer.observe(trial, [found, found * 1.5, found])


class Log:
    """A file of JSON lines; each line is on the disk when `write` returns."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        # A process that was killed while it wrote has left a part of a line where a page of the file ends.
        os.ftruncate(self._fd, path.read_bytes().rfind(b"\n") + 1)

    def write(self, entry: Any) -> None:
        os.write(self._fd, json.dumps(entry).encode() + b"\n")
        os.fsync(self._fd)


def entries(path: Path) -> list[Any]:
    """Return the entries of a log; an incomplete line was not acknowledged."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


class Report:
    """Prints figures and counts violations."""

    def __init__(self) -> None:
        self.wrong = 0
        self._started = time.monotonic()

    def check(self, holds: bool, what: str) -> None:
        if not holds:
            self.wrong += 1
            print(f"WRONG: {what}", flush=True)

    def figure(self, text: str) -> None:
        print(f"- {text}", flush=True)

    def end(self) -> NoReturn:
        seconds = time.monotonic() - self._started
        self.figure(f"{self.wrong} violations; {seconds:.0f} s")
        sys.exit(1 if self.wrong else 0)


def parser(doc: str | None, **numbers: int) -> argparse.ArgumentParser:
    """Return a parser of the arguments ``--quick``, ``--seed`` and whole numbers by name."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="the short version, as in the tests")
    parser.add_argument("--seed", type=int, default=0)
    for name, number in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=None, help=f"default {number}")
    return parser


def arguments(doc: str | None, **numbers: int) -> argparse.Namespace:
    return parser(doc, **numbers).parse_args()


def chosen(given: int | None, quick: bool, short: int, full: int) -> int:
    if given is not None:
        return given
    return short if quick else full


@contextmanager
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="baco-reliability-") as folder:
        yield Path(folder)


def forked(work: Callable[[], None]) -> int:
    """Fork a child that does the work and exits, and return its process id; the parent has done the imports."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    except BaseException as error:
        print(f"child: {error!r}", file=sys.stderr, flush=True)
    finally:
        os._exit(code)


def kill(child: int) -> None:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def known(optimizer: Optimizer) -> dict[int, Any]:
    """Return the record of every observed trial by its id, in JSON values."""
    return {
        t.id: json.loads(json.dumps([dict(t), t.value, list(t.repeats), t.failure]))
        for t in optimizer.trials
    }
