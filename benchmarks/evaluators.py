"""Measure every available target: typical evaluations, and our overhead.

    OMP_NUM_THREADS=1 python benchmarks/evaluators.py --evaluations 40 --out FILE.md

First table: the run files of examples/, with the default configuration and random ones. Second table: kernels of
about 0.1 and 10 ms. They are evaluated (in another process, with limits, compared with a reference) and called
directly in this process, alternately, to check that both take the same time. The overhead is the time of an
evaluation after compilation (and after the first launch, in which some drivers compile), minus the time of its runs
and of launching them here. Aim: at most 3 ms for each evaluation at 0.1 ms, at most 5 % of the runs at 10 ms. On a
machine with other load, use real-time priority: chrt -f 1 python ...
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

os.environ.setdefault("POCL_MAX_PTHREAD_COUNT", "1")  # so that other load disturbs less

import numpy as np

from baco_like import BacoError, Space
from baco_like.cli import run_file as runfile
from baco_like.evaluators import halide, registry
from baco_like.evaluators.c_loop_nest import source as loop_nest_source
from baco_like.evaluators.gpu.opencl import convolution, programs
from baco_like.evaluators.halide import matmul, pipelines
from baco_like.evaluators.kernels.domains import completed
from baco_like.evaluators.settings_table import Table
from baco_like.evaluators.staged import StagedEvaluator
from baco_like.records.trial import Status, Trial

EXAMPLES = Path(__file__).parents[1] / "examples"
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
    """A kernel with an evaluator and a direct call.

    Attributes:
        evaluator: Evaluates it.
        config: Its configuration.
        direct: Calls it here, once; returns the recorded seconds if they are less than the whole call.
        runs: Number of runs in an evaluation, without a first launch in a separate stage.
    """

    evaluator: object
    config: dict
    direct: Callable[[], float | None]
    runs: int


def seconds_of(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def called(direct: Callable[[], float | None]) -> tuple[float, float]:
    """Return the seconds of a call, and its seconds that are not recorded for the kernel."""
    started = time.perf_counter()
    told = direct()
    taken = time.perf_counter() - started
    return taken, 0.0 if told is None else taken - told


def compiled(source: str, folder: Path, flags: list[str]) -> ctypes.CDLL:
    place = folder / f"lib{len(list(folder.iterdir()))}.so"
    command = ["cc", "-x", "c", "-", "-shared", "-fPIC", *flags, "-o", str(place)]
    subprocess.run(command, input=source, text=True, check=True)
    return ctypes.CDLL(str(place))


def made(space: Space, folder: Path, **table: object) -> object:
    return registry.create(Table("evaluator", {"repeats": REPEATS, **table}), space, "ms", folder)


def command(folder: Path, size: int) -> Case:
    rounds = size**3 // 2560
    (folder / "spin.c").write_text(SPIN)
    macros = f"-DROUNDS={rounds} -DREPEATS={REPEATS}"
    evaluator = made(
        Space({"level": ["-O2", "-O3"]}),
        folder,
        kind="command",
        build=f"cc {{level}} {macros} spin.c -o {{workdir}}/spin",
        run="{workdir}/spin",
        measure="json",
        key="times",
        repeats=1,
    )
    kernel = compiled(SPIN, folder, ["-O2", *macros.split()]).kernel
    kernel.restype = None
    return Case(evaluator, {"level": "-O2"}, kernel, REPEATS + 1)


def function(folder: Path, size: int) -> Case:
    name = f"spinning_{size}"
    (folder / f"{name}.py").write_text(FUNCTION.format(size=size))
    sys.path.insert(0, str(folder))
    spin = importlib.import_module(name).spin
    space = Space({"n": [1, 2]})
    evaluator = made(space, folder, kind="function", function=f"{name}:spin", timeout=10)
    return Case(evaluator, {"n": 1}, lambda: spin({"n": 1}) / 1e3, REPEATS)


def c_loop_nest(folder: Path, size: int) -> Case:
    config = {"opt": "-O2"}
    schedule = loop_nest_source.Schedule(**config)
    source = loop_nest_source.kernel_source(schedule, size)
    kernel = compiled(source, folder, loop_nest_source.compiler_flags(schedule)).kernel
    arrays = [np.ones((size, size), np.float32) for _ in range(3)]
    evaluator = made(Space({"opt": ["-O2", "-O3"]}), folder, kind="c_loop_nest", size=size)
    return Case(evaluator, config, lambda: called_with(kernel, arrays), REPEATS + 1)


def called_with(kernel, arrays: list[np.ndarray]) -> None:
    kernel(*(ctypes.c_void_p(array.ctypes.data) for array in arrays))


def in_worker(folder: Path, kind: str, module, space, server, config: dict, **table) -> Case:
    evaluator = made(space, folder, kind=kind, **table)
    kernel = server.compile(completed(kind, module.DOMAINS, config))
    kernel.prepare()
    kernel.run()
    return Case(evaluator, config, kernel.run, REPEATS)


def plan() -> dict:
    return halide.Settings("matmul", 1).plan.to_dict()


def halide_case(folder: Path, size: int) -> Case:
    order = ("yo", "xo", "ko", "yi", "ki", "xi")
    config = {"order": order, "tx": 16, "ty": 4, "tk": 16, "vec": 8}
    settings = {"problem": matmul.__name__, "size": size, "input_seed": 0, "target": "host"}
    server = pipelines.serve({**settings, "plan": plan()})
    table = {"problem": "matmul", "size": size, "threads": 1}
    return in_worker(folder, "halide", matmul, matmul.space(size), server, config, **table)


def opencl_case(folder: Path, size: int) -> Case:
    settings = {"problem": convolution.__name__, "size": size, "input_seed": 0, "options": []}
    server = programs.serve({**settings, "platform": "", "device": 0, "plan": plan()})
    table = {"problem": "convolution", "size": size}
    space = convolution.space(size)
    return in_worker(folder, "opencl", convolution, space, server, {}, **table)


CASES = {
    "command": command,
    "function": function,
    "c_loop_nest": c_loop_nest,
    "halide": halide_case,
    "opencl": opencl_case,
}


def nearest(kind: str, folder: Path, wanted: float) -> Case:
    """Return the case whose kernel is closest to a number of seconds."""
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


def evaluated(evaluator, number: int, config: dict):
    evaluator.submit(Trial(number, config))
    started = time.perf_counter()
    (outcome,) = evaluator.wait()
    return outcome, time.perf_counter() - started


def measured(evaluator, number: int, config: dict):
    """Return the values of a configuration, and the seconds of the measurement after compilation."""
    trial, seconds = Trial(number, config), {}
    staged = (
        evaluator if isinstance(evaluator, StagedEvaluator) else getattr(evaluator, "_staged", None)
    )
    if staged is None:  # no compilation
        outcome, wall = evaluated(evaluator, number, config)
        return outcome.repeats, wall
    built = staged._bench.build(trial, seconds)
    started = time.perf_counter()
    try:
        values = built.measure(REPEATS, None)
        return values, time.perf_counter() - started - seconds.get("launch", 0.0)
    finally:
        built.discard()


def overhead_row(kind: str, wanted: float, rounds: int) -> str:
    with tempfile.TemporaryDirectory() as place:
        case = nearest(kind, Path(place), wanted)
        over, direct, told = [], [], []
        for number in range(rounds + 1):
            values, wall = measured(case.evaluator, number, case.config)
            calls = [called(case.direct) for _ in range(REPEATS)]
            once, launching = (statistics.median(column) for column in zip(*calls, strict=True))
            if number:  # the first one starts the worker and makes the inputs
                unseen = (case.runs - len(values)) * statistics.median(values)  # warm-ups
                over.append(wall - (sum(values) + unseen) / 1e3 - case.runs * launching)
                direct.append(once)
                told.append(statistics.median(values) / 1e3)
        case.evaluator.close()
    runs = case.runs * statistics.median(told)
    middle, least = statistics.median(over), min(over)
    return (
        f"| {kind} | {1e3 * statistics.median(direct):.3f} | {1e3 * statistics.median(told):.3f} | "
        f"{1e3 * middle:.2f} | {1e3 * least:.2f} | {100 * middle / runs:.1f} % |"
    )


def target_row(file: Path, evaluations: int) -> str:
    asked = runfile.read(file)
    kind = asked.evaluator_table.text("kind")
    evaluator = asked.create_evaluator()
    plain = asked.space.default_config
    configs = [*([plain] if plain else []), *asked.space.sample(evaluations, seed=0)][:evaluations]
    started = time.perf_counter()
    try:
        outcomes = [evaluated(evaluator, i, config)[0] for i, config in enumerate(configs)]
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
    """Return a row of a table, or the reason why the target is not available here."""
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
