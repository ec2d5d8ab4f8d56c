"""Every evaluator passes the same checks; a new evaluator is one line in CASES."""

import shutil
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from kernel_checks import KERNELS

from baco_like._tables import Table
from baco_like.evaluators import (
    CachedEvaluator,
    CheckedEvaluator,
    CKernelEvaluator,
    CKernelSettings,
    ExecutorEvaluator,
    FunctionEvaluator,
    RepeatedEvaluator,
    Repeats,
    ResultCache,
    SlotsEvaluator,
    isolated_function,
)
from baco_like.evaluators.command import evaluator as command
from baco_like.evaluators.protocol import RunArguments
from baco_like.exceptions import Infeasible
from baco_like.spaces.space import Space
from baco_like.testing.evaluators import CHECKS, Case

POOL = ThreadPoolExecutor(2)
_meeting = threading.Barrier(2)
for _ in range(2):
    POOL.submit(_meeting.wait)  # both threads are there before anything is counted
XS = [{"x": x} for x in (1, 2, 3, 4)]
SLOTS = [{"name": name, "type": "T4", "environment": {"SLOT": name}} for name in "ab"]
TILES = [{"ti": 1}, {"ti": 5}, {"ti": 4}]


def fn(trial):
    if trial["x"] == 3:
        raise Infeasible("too large", failed="compile")
    return float(trial["x"])


def function(folder):
    return FunctionEvaluator(fn)


def by_command(ahead):
    table = {
        "build": "test {x} != 3",
        "run": "true",
        "measure": "wall",
        "ahead": ahead,
    }
    space = Space({"x": [1, 2, 3, 4]})
    return lambda folder: command.from_table(
        Table("evaluator", table), RunArguments(space, "ms", folder)
    )


def loop_nest(ahead):
    space = Space({"ti": [1, 4, 5]})
    settings = CKernelSettings(KERNELS / "c_loop_nest.py", 8, repeats=Repeats(), ahead=ahead)
    return lambda folder: CKernelEvaluator(space, settings)


def isolated(folder):
    path = [str(Path(__file__).parent / "function")]
    return isolated_function("objective_targets:plain", timeout=60.0, path=path)


CASES = {
    "function": (function, XS),
    "function in a pool": (lambda folder: FunctionEvaluator(fn, executor=POOL), XS),
    "executor": (lambda folder: ExecutorEvaluator(partial(FunctionEvaluator, fn), POOL), XS),
    "command": (by_command(0), XS),
    "command, built ahead": (by_command(2), XS),
    "C kernel, built ahead": (loop_nest(1), TILES),
    "isolated": (isolated, XS),
    "slots": (lambda folder: SlotsEvaluator(lambda environment: function(folder), SLOTS), XS),
    "repeated": (lambda folder: RepeatedEvaluator(function(folder), Repeats(2)), XS),
    "checked": (lambda folder: CheckedEvaluator(function(folder), lambda t, o: None), XS),
    "cached": (
        lambda folder: CachedEvaluator(function(folder), ResultCache(folder / "cache", {})),
        XS,
    ),
}
NEEDS_CC = ("C kernel, built ahead",)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", CASES)
def test_conformance(name, check, tmp_path):
    if name in NEEDS_CC and shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    make, configs = CASES[name]
    check(Case(lambda: make(tmp_path), configs))
