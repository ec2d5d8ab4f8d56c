"""Measure every evaluator on this machine: the outcomes of its example, and its overhead.

    OMP_NUM_THREADS=1 python benchmarks/evaluators.py --evaluations 40 --out FILE.md

First table: the TOML files of examples/, with the default configuration and random ones. Second table: kernels of about
0.1 and 10 ms, alternately evaluated (in another process, with limits, compared with a reference) and called directly in
this process; both must take the same time. The overhead is the time of an evaluation after its compilation (and after
its first launch, during which some drivers compile), without its runs and without the cost of launching them, which a
direct call has too. The goal is at most 3 ms per evaluation at 0.1 ms, and at most 5 % of the runs at 10 ms. On a busy
machine use real-time priority: chrt -f 1 python ...
"""

import argparse
import ctypes
import importlib
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault(
    "POCL_MAX_PTHREAD_COUNT", "1"
)  # fewer threads are disturbed less by other processes

import numpy as np

from baco_like import BacoError, Space
from baco_like._tables import Table
from baco_like.evaluators import StagedEvaluator, registry
from baco_like.evaluators.kernels import (
    complete_config,
    halide_worker,
    load_problem,
    opencl_worker,
)
from baco_like.records.trial import Status, Trial
from baco_like.running import run_file as runfile

EXAMPLES = Path(__file__).parents[1] / "examples"
KERNELS = EXAMPLES / "kernels"
REPEATS = 5
SIZES = (48, 64, 80, 96, 128, 160, 192, 224, 256, 320, 384, 512, 768)

FUNCTION = """
import time
import numpy as np
a = np.ones(({size}, {size}))
def spin(trial):
    started = time.perf_counter()
    a @ a
    return 1e3 * (time.perf_counter() - started)
"""

SPIN = r"""
#include <stdio.h>
#include <time.h>
static float x[4096];
__attribute__((noinline)) void kernel(void)
{
    for (int r = 0; r < ROUNDS; r++)
        for (int i = 0; i < 4096; i++) x[i] = x[i] * 0.999f + 1.0f;
}
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}
int main(void)
{
    kernel();
    for (int r = 0; r < REPEATS; r++) {
        double start = now();
        kernel();
        printf("%s%.6f", r ? ", " : "{\"times\": [", now() - start);
    }
    puts("]}");
    return x[0] < 0;
}
"""


@dataclass(frozen=True)
class Case:
    """A kernel that can be evaluated and called directly.

    Attributes:
        evaluator: Evaluates it.
        config: Its configuration.
        direct: Calls it once in this process; returns the seconds that would be recorded, or None if these are the
            seconds of the whole call.
        runs: Number of runs of an evaluation, without a first launch that is a separate stage.
    """

    evaluator: object
    config: dict
    direct: Callable[[], float | None]
    runs: int


def seconds_of(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def time_call(direct: Callable[[], float | None]) -> tuple[float, float]:
    """Return the seconds of a call, and how many of these are not recorded as the kernel's."""
    started = time.perf_counter()
    recorded = direct()
    seconds = time.perf_counter() - started
    return seconds, 0.0 if recorded is None else seconds - recorded


def compile_library(source: str, folder: Path, flags: list[str]) -> ctypes.CDLL:
    place = folder / f"lib{len(list(folder.iterdir()))}.so"
    command = ["cc", "-x", "c", "-", "-shared", "-fPIC", *flags, "-o", str(place)]
    subprocess.run(command, input=source, text=True, check=True)
    return ctypes.CDLL(str(place))


def make_evaluator(space: Space, folder: Path, **table: object) -> object:
    return registry.create(Table("evaluator", {"repeats": REPEATS, **table}), space, "ms", folder)


def command(folder: Path, size: int) -> Case:
    rounds = size**3 // 2560
    (folder / "spin.c").write_text(SPIN)
    macros = f"-DROUNDS={rounds} -DREPEATS={REPEATS}"
    evaluator = make_evaluator(
        Space({"level": ["-O2", "-O3"]}),
        folder,
        kind="command",
        build=f"cc {{level}} {macros} spin.c -o {{workdir}}/spin",
        run="{workdir}/spin",
        measure="json",
        key="times",
        repeats=1,
    )
    kernel = compile_library(SPIN, folder, ["-O2", *macros.split()]).kernel
    kernel.restype = None
    return Case(evaluator, {"level": "-O2"}, kernel, REPEATS + 1)


def function(folder: Path, size: int) -> Case:
    name = f"spinning_{size}"
    (folder / f"{name}.py").write_text(FUNCTION.format(size=size))
    sys.path.insert(0, str(folder))
    spin = importlib.import_module(name).spin
    space = Space({"n": [1, 2]})
    evaluator = make_evaluator(space, folder, kind="function", function=f"{name}:spin", timeout=10)
    return Case(evaluator, {"n": 1}, lambda: spin({"n": 1}) / 1e3, REPEATS)


def c_loop_nest(folder: Path, size: int) -> Case:
    config = {"opt": "-O2"}
    problem = load_problem(KERNELS / "c_loop_nest.py")
    kernel = compile_library(problem.source(config, size), folder, problem.flags(config)).kernel
    arrays = [np.ones((size, size), np.float32) for _ in range(3)]
    evaluator = make_evaluator(
        Space({"opt": ["-O2", "-O3"]}), folder, kind="c", **problem_keys("c_loop_nest", size)
    )
    return Case(evaluator, config, lambda: call_with(kernel, arrays), REPEATS + 1)


def call_with(kernel, arrays: list[np.ndarray]) -> None:
    kernel(*(ctypes.c_void_p(array.ctypes.data) for array in arrays))


def problem_keys(name: str, size: int) -> dict[str, object]:
    return {"problem": str(KERNELS / f"{name}.py"), "size": size}


def in_worker(folder: Path, kind: str, name: str, size: int, serve, config: dict, **table) -> Case:
    """Return the case of a kernel that the evaluator runs in a worker.

    Args:
        folder: Folder of the TOML file.
        kind: The evaluator's kind.
        name: The file of examples/kernels.
        size: The problem's size.
        serve: Returns a server for this process from the settings of the evaluator's worker.
        config: The configuration.
        table: Additional keys of the evaluator's table.
    """
    problem, keys = load_problem(KERNELS / f"{name}.py"), problem_keys(name, size)
    evaluator = make_evaluator(problem.space(size), folder, kind=kind, **keys, **table)
    server = serve(evaluator.bench.worker._opening["settings"])
    kernel = server._compile(complete_config(kind, problem.domains(), config))
    kernel.arguments.place(is_new=True)
    kernel.time(1, 60.0)
    return Case(evaluator, config, lambda: kernel.time(1, 60.0), REPEATS)


def halide_case(folder: Path, size: int) -> Case:
    order = ("yo", "xo", "ko", "yi", "ki", "xi")
    config = {"order": order, "tx": 16, "ty": 4, "tk": 16, "vec": 8}

    return in_worker(
        folder, "halide", "halide_matmul", size, halide_worker.serve, config, threads=1
    )


def opencl_case(folder: Path, size: int) -> Case:
    return in_worker(folder, "opencl", "opencl_convolution", size, opencl_worker.serve, {})


CASES = {
    "command": command,
    "function": function,
    "c": c_loop_nest,
    "halide": halide_case,
    "opencl": opencl_case,
}


def nearest(kind: str, folder: Path, wanted: float) -> Case:
    """Return the case whose kernel takes about ``wanted`` seconds."""
    best, distance = None, math.inf
    for size in SIZES:
        case = CASES[kind](folder, size)
        taken = min(seconds_of(case.direct) for _ in range(5))
        if abs(math.log(taken / wanted)) >= distance:
            case.evaluator.close()
            break
        if best is not None:
            best.evaluator.close()
        best, distance = case, abs(math.log(taken / wanted))
    return best


def evaluate(evaluator, number: int, config: dict):
    evaluator.submit(Trial(number, config))
    started = time.perf_counter()
    (outcome,) = evaluator.wait()
    return outcome, time.perf_counter() - started


def measure(evaluator, number: int, config: dict):
    """Return the values of a configuration, and the seconds of their measurement without the compilation."""
    trial, seconds = Trial(number, config), {}
    if not isinstance(evaluator, StagedEvaluator):  # there is nothing to compile
        outcome, wall = evaluate(evaluator, number, config)
        return outcome.repeats, wall
    built = evaluator.bench.build(trial, seconds)
    started = time.perf_counter()
    try:
        values = built.measure(REPEATS, None, near=0.0)  # like most: not near the best
        return values, time.perf_counter() - started - seconds.get("launch", 0.0)
    finally:
        built.discard()


def overhead_row(kind: str, wanted: float, rounds: int) -> str:
    with tempfile.TemporaryDirectory() as place:
        case = nearest(kind, Path(place), wanted)
        over, direct, recorded = [], [], []
        for number in range(rounds + 1):
            values, wall = measure(case.evaluator, number, case.config)
            calls = [time_call(case.direct) for _ in range(REPEATS)]
            once, launching = (statistics.median(column) for column in zip(*calls, strict=True))
            if number:  # the first evaluation also starts the worker and makes the inputs
                unseen = (case.runs - len(values)) * statistics.median(values)  # warm-ups
                over.append(wall - (sum(values) + unseen) / 1e3 - case.runs * launching)
                direct.append(once)
                recorded.append(statistics.median(values) / 1e3)
        case.evaluator.close()
    runs = case.runs * statistics.median(recorded)
    middle, least = statistics.median(over), min(over)
    return (
        f"| {kind} | {1e3 * statistics.median(direct):.3f} | {1e3 * statistics.median(recorded):.3f} | "
        f"{1e3 * middle:.2f} | {1e3 * least:.2f} | {100 * middle / runs:.1f} % |"
    )


def target_row(file: Path, evaluations: int) -> str:
    asked = runfile.read(file)
    kind = asked.evaluator_table.text("kind")
    evaluator = asked.evaluator()
    plain = asked.space.default_config
    configs = [*([plain] if plain else []), *asked.space.sample(evaluations, seed=0)][:evaluations]
    started = time.perf_counter()
    try:
        outcomes = [evaluate(evaluator, i, config)[0] for i, config in enumerate(configs)]
    finally:
        evaluator.close()
    each = (time.perf_counter() - started) / len(outcomes)
    words = Counter(
        "slow" if one.status is Status.CENSORED else one.failed
        for one in outcomes
        if one.failed is not None
    )
    values = [one.value for one in outcomes if one.value is not None]
    failures = ", ".join(f"{count} {word}" for word, count in words.items()) or "none"
    default = "-" if plain is None or outcomes[0].value is None else f"{outcomes[0].value:.3g}"
    best = f"{min(values):.3g} | {max(values) / min(values):.0f}" if values else "- | -"
    return (
        f"| {kind} ({file.name}) | {len(outcomes)} | {failures} | {default} | {best} | {each:.2f} |"
    )


def rows(label: str, make: Callable[[], str]) -> str:
    """Return a row of a table, or a row with the reason why this evaluator cannot run here."""
    try:
        row = make()
        print(row, file=sys.stderr)
        return row
    except (BacoError, ImportError, OSError, subprocess.SubprocessError) as error:
        return f"| {label} | not here: {' '.join(str(error).split())[:120]} |"


def targets(evaluations: int) -> list[str]:
    head = [
        "| target | evaluations | failures | default, ms | best, ms | worst / best | s per evaluation |",
        "|---|---:|---|---:|---:|---:|---:|",
    ]
    files = [file for file in sorted(EXAMPLES.glob("*.toml")) if file.stem != "replay"]
    return [*head, *(rows(f.name, lambda f=f: target_row(f, evaluations)) for f in files)]


def overhead(rounds: int) -> list[str]:
    lines = [
        "| target | direct call, ms | measured, ms | overhead, ms an evaluation | least | of the runs |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for kind in registry.KINDS:
        if kind not in CASES:
            lines += [f"| {kind} | not called directly here |"] if kind != "replay" else []
            continue
        for wanted in (1e-4, 1e-2):
            lines.append(rows(kind, lambda k=kind, w=wanted: overhead_row(k, w, rounds)))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--evaluations", type=int, default=40, help="0: not the first table")
    parser.add_argument("--rounds", type=int, default=15, help="0: not the second table")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    tables = [targets(args.evaluations)] if args.evaluations > 0 else []
    tables += [overhead(args.rounds)] if args.rounds > 0 else []
    text = "\n\n".join("\n".join(lines) for lines in tables) + "\n"
    print(text)
    if args.out:
        args.out.write_text(text)


if __name__ == "__main__":
    main()
