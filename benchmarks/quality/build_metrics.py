"""Measure what build metrics are worth: runs until the default's result, with true and with shuffled metrics.

    OMP_NUM_THREADS=1 python benchmarks/quality/build_metrics.py --out runs.jsonl [--seeds 2] [--budget 40]

The problems are made ones, whose metrics explain the value beside four useless ones, and the programs of
`benchmarks/compilers`: executed instructions, with the sizes and the instructions by class of the object file, or with
the instructions of the LLVM module by opcode. Three methods: the default strategy; eight candidates built for each
measurement; the same with the metrics of other configurations. Equal programs are measured once. ``--out`` keeps each
finished run, and results of compilers stay in ``--folder``, so a later call continues. The values are counts: two
machines with the same tools agree. ``--half judged`` takes all programs of that half.
"""

import argparse
import json
import math
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "compilers"))
import compiler_suite as suite_module
from compiler_suite import FOLDER, Store, Suite

from baco_like import Categorical, Integer, Optimizer, Ordinal, Space
from baco_like.evaluators.command.build_metrics import count_opcodes, program_metrics

METHODS = ("default", "metrics", "shuffled")
CANDIDATES = 8
MOST_BUILDS = 10
"""Builds for each measurement after which a run ends."""

SPACES = ("gcc-O2-60", "nest-O3", "passes-O3")
QUICK = ("gcc-O2-60:sorts", "nest-O3:gemm", "passes-O3:sorts", "passes-O3:sparse")
"""The compiled problems without ``--half``."""


def digest(config: Mapping[str, Any]) -> int:
    """Return a number that belongs to a configuration."""
    return zlib.crc32(repr(sorted((name, str(value)) for name, value in config.items())).encode())


class Tiles:
    """A made kernel: the value is a weighted sum of instructions, loads and spills, which the parameters scramble."""

    def __init__(self) -> None:
        self.space = Space(
            {
                "tile": Ordinal([1, 2, 4, 8, 16, 32, 64], log=True),
                "unroll": Ordinal([1, 2, 3, 4, 5, 6, 8, 12, 16]),
                "vectorise": Categorical(["no", "slp", "loop"]),
                "order": Categorical(list("abcdef")),
                "pad": Integer(0, 15),
                "align": Ordinal([1, 2, 4, 8, 16], log=True),
            }
        )
        self._orders = dict(zip("abcdef", (4, 1, 5, 0, 3, 2), strict=True))

    def build(self, config: Mapping[str, Any]) -> tuple[str | None, dict[str, float], float]:
        """Return the program, its metrics and the seconds of the build."""
        tile, unroll, pad = config["tile"], config["unroll"], config["pad"]
        width, order = (
            {"no": 1, "slp": 2, "loop": 8}[config["vectorise"]],
            self._orders[config["order"]],
        )
        spills = max(0, unroll * width // 2 - 10 + order)
        count = 4096 / min(width, tile) * (1 + 0.4 / unroll) + 90 * spills
        count += 300 * (tile * (pad + 1) % 3 == 0)
        loads = 0.3 * count + 80 * ((tile * (1 + order) + pad) % (2 * config["align"]))
        useful = {"code.instructions": count, "code.loads": loads, "code.spills": float(spills)}
        noise = np.random.default_rng(digest(config)).integers(0, 1000, 4)
        useless = {f"other.{i}": float(number) for i, number in enumerate(noise)}
        return None, {**useful, "size.text": 2000 + 0.9 * count, **useless}, 0.1

    def measure(self, config: Mapping[str, Any]) -> float | None:
        """Return the value."""
        _, metrics, _ = self.build(config)
        code = [metrics[f"code.{name}"] for name in ("instructions", "loads", "spills")]
        return float(np.dot(code, (1.0, 3.0, 30.0)))


class Switches:
    """A made compiler of 40 switches: few interact, and two metrics give the value."""

    def __init__(self) -> None:
        self.space = Space({f"f{i}": Categorical(["off", "on"]) for i in range(40)})
        rng = np.random.default_rng(3)
        self._terms = [(rng.integers(0, 40, 3), rng.normal()) for _ in range(12)]

    def build(self, config: Mapping[str, Any]) -> tuple[str | None, dict[str, float], float]:
        """Return the program, its metrics and the seconds of the build."""
        on = np.array([value == "on" for value in config.values()], dtype=float)
        terms = [w * on[a] * (1 - on[b]) + 0.3 * on[c] for (a, b, c), w in self._terms]
        count, loads = 3000 * math.exp(0.1 * sum(terms[:6])), 900 * math.exp(0.15 * sum(terms[6:]))
        noise = np.random.default_rng(digest(config)).integers(0, 1000, 4)
        useless = {f"other.{i}": float(number) for i, number in enumerate(noise)}
        return None, {"code.instructions": count, "code.loads": loads, **useless}, 0.1

    def measure(self, config: Mapping[str, Any]) -> float | None:
        """Return the value."""
        _, metrics, _ = self.build(config)
        return metrics["code.instructions"] + 3 * metrics["code.loads"]


class Compiled:
    """A program of the compiler suite; builds and values stay in its store."""

    def __init__(self, name: str, suite: Suite) -> None:
        space, program = name.split(":")
        self._problem: Any = suite.problem(space, "instructions", program)
        self._suite, self.space = suite, self._problem.space

    @cached_property
    def _versions(self) -> list[str]:
        tools = ("clang", "opt") if self._problem.tool == "passes" else ("gcc", "objdump")
        return [self._suite.version(tool) for tool in tools]

    def build(self, config: Mapping[str, Any]) -> tuple[str | None, dict[str, float], float]:
        """Return the program, its metrics and the seconds of the build; no metrics if it fails."""
        problem, words = self._problem, self._problem.words(config)
        key = ["build metrics", self._versions, problem.program.digest, problem.level_flag, words]
        known = self._suite.store.get(suite_module._hash(*key))
        if known is None:
            began = time.perf_counter()
            with tempfile.TemporaryDirectory() as name:
                build = self._run_passes if problem.tool == "passes" else self._compile
                program, metrics = build(words, Path(name))
            seconds = round(time.perf_counter() - began, 3)
            known = self._suite.store.put(suite_module._hash(*key), [program, metrics, seconds])
        program, metrics, seconds = known
        return program, metrics, seconds

    def _compile(self, words: list[str], folder: Path) -> tuple[str, dict[str, float]]:
        problem, file = self._problem, folder / "own.o"
        command = [problem.level_flag, *words]
        if suite_module._build(problem.tool, command, problem.program, folder):
            return "", {}
        return suite_module._hash(file.read_bytes().hex()), program_metrics(file)

    def _run_passes(self, words: list[str], folder: Path) -> tuple[str, dict[str, float]]:
        problem = self._problem
        source = self._suite._bitcode(problem.level_flag, problem.program)
        request = {
            "source": str(source),
            "passes": problem._passes.text(words) or "no-op-module",
        }
        if self._suite._ask(request, text=folder / "own.ll"):
            return "", {}
        text = (folder / "own.ll").read_text().partition("\n")[2]
        return suite_module._hash(text), count_opcodes(text)

    def measure(self, config: Mapping[str, Any]) -> float | None:
        """Return the executed instructions; None if the result is wrong."""
        problem, suite = self._problem, self._suite
        if problem.tool != "passes":
            value: float | None = problem.measure(config)
            return value
        program, _, _ = self.build(config)
        own = problem.program
        key = suite_module._hash("runs", program, own.argument, self._versions)
        known = suite.store.get(key)
        if known is None:
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                self._run_passes(problem.words(config), folder)
                suite._ask({"source": str(folder / "own.ll")}, object=folder / "own.o")
                failed = suite_module._check(own, folder)
                count = None if failed else suite_module._instructions(own, folder)
            known = suite.store.put(key, [count])
        return None if known[0] is None else float(known[0])


def shuffle(problem: Any) -> Callable[[Mapping[str, Any]], dict[str, float]]:
    """Return the function that gives a configuration the metrics of another one."""
    rows = problem.space.feasible.sample(40, np.random.default_rng(0))
    pool = [metrics for c in problem.space.decode(rows) if (metrics := problem.build(c)[1])]

    def shuffled(config: Mapping[str, Any]) -> dict[str, float]:
        program = problem.build(config)[0]
        number = digest(config) if program is None else zlib.crc32(program.encode())
        return pool[number % len(pool)]

    return shuffled


def run(problem: Any, method: str, seed: int, budget: int) -> dict[str, Any]:
    """Return the best value after each measurement, and the number and seconds of builds."""
    optimizer = Optimizer(problem.space, seed=seed, budget=budget)
    metrics_of = shuffle(problem) if method == "shuffled" else lambda c: problem.build(c)[1]
    default = problem.space.default_config
    if default is not None:
        optimizer.enqueue(default)
    best: list[float] = []
    values: dict[str, float | None] = {}
    builds: dict[str, float] = {}
    began = time.process_time()

    def note(config: Mapping[str, Any]) -> str | None:
        program, _, seconds = problem.build(config)
        builds[str(dict(config))] = seconds
        return program

    def finish(trial: Any, program: str | None) -> None:
        value = values[program] if program in values else problem.measure(trial.config)
        known = {"program": program} if program else {}
        if program is not None:
            values[program] = value
        if value is None:
            optimizer.observe(trial, failed="runtime", **known)
        else:
            optimizer.observe(trial, value, build=metrics_of(trial.config), **known)
        found = optimizer.best
        best.extend(
            [math.inf if found is None else found.value] * (optimizer.history.searched - len(best))
        )

    while len(best) < budget and len(builds) < MOST_BUILDS * budget:
        candidates = [] if method == "default" else optimizer.candidates(CANDIDATES)
        for candidate in candidates if len(candidates) > 1 else ():
            program = note(candidate.config)
            if not problem.build(candidate.config)[1]:
                trial = optimizer.measure_again(candidate.config, "candidate")
                optimizer.observe(trial, failed="compile")
            elif program in values:
                finish(optimizer.measure_again(candidate.config, "candidate"), program)
            else:
                optimizer.report_build(candidate, metrics_of(candidate.config), program=program)
        trial = optimizer.choose() if len(candidates) > 1 else optimizer.suggest()
        finish(trial, note(trial.config))
    return {
        "best": best,
        "builds": len(builds),
        "build_seconds": round(sum(builds.values()), 1),
        "cpu": round(time.process_time() - began, 1),
    }


def problems(names: list[str] | None, half: str | None) -> list[str]:
    """Return the names of the problems."""
    made = ["made:tiles", "made:switches"]
    if half is None:
        return names or [*made, *QUICK]
    own = [p for p in suite_module.read_programs().values() if p.half == half]
    compiled = [f"{s}:{p.name}" for s in SPACES for p in own if "nest" not in s or p.macros]
    return names or [*made, *compiled]


COLUMNS = (
    "runs to the default's last value, over its own",
    "value at 60 % of the runs",
    "value at the end",
    "value at the end, shuffled",
)
"""Ratios to the default; values are minimised. Runs that do not reach its last value count as all of them."""


def table(rows: list[dict[str, Any]], budget: int) -> str:
    """Return the table in Markdown: geometric means over the seeds that all methods have."""
    by = {(r["problem"], r["seed"], r["method"]): r for r in rows if r["budget"] == budget}
    shown = [f"| problem | seeds | {' | '.join(COLUMNS)} | builds | seconds of builds |"]
    shown.append("|---|" + "---:|" * (len(COLUMNS) + 3))
    means = []
    for problem in dict.fromkeys(problem for problem, _, _ in by):
        ratios, builds = [], []
        for seed in sorted({s for p, s, _ in by if p == problem}):
            runs = [by[problem, seed, m] for m in METHODS if (problem, seed, m) in by]
            if len(runs) < len(METHODS):
                continue
            default, metrics, shuffled = (run["best"] for run in runs)
            goal, early = default[-1], metrics[min(len(metrics), math.ceil(0.6 * budget)) - 1]
            needed = [
                next((i for i, v in enumerate(b, 1) if v <= goal), budget)
                for b in (default, metrics)
            ]
            ratios.append(
                [needed[1] / needed[0], early / goal, metrics[-1] / goal, shuffled[-1] / goal]
            )
            builds.append((runs[1]["builds"], runs[1]["build_seconds"]))
        if ratios:
            means.append(np.log(ratios).mean(axis=0))
            cells = [f"{number:.3f}" for number in np.exp(means[-1])]
            cells += [f"{number:.0f}" for number in np.mean(builds, axis=0)]
            shown.append(f"| `{problem}` | {len(ratios)} | {' | '.join(cells)} |")
    if means:
        cells = [f"{number:.3f}" for number in np.exp(np.mean(means, axis=0))]
        shown.append(f"| mean | | {' | '.join(cells)} | | |")
    return "\n".join(shown)


def main() -> None:
    """Make the missing runs and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--budget", type=int, default=40)
    parser.add_argument("--half", choices=("development", "judged"))
    parser.add_argument("--problems", nargs="*")
    args = parser.parse_args()
    rows = (
        [json.loads(line) for line in args.out.read_text().splitlines()]
        if args.out.exists()
        else []
    )
    done = {(r["problem"], r["method"], r["seed"], r["budget"]) for r in rows}
    suite = Suite(Store(args.folder / "store.sqlite"))
    made = {"made:tiles": Tiles, "made:switches": Switches}
    for seed in range(args.seeds):
        for name in problems(args.problems, args.half):
            for method in METHODS:
                if (name, method, seed, args.budget) in done:
                    continue
                problem = made[name]() if name in made else Compiled(name, suite)
                row = {"problem": name, "method": method, "seed": seed, "budget": args.budget}
                row |= run(problem, method, seed, args.budget)
                rows.append(row)
                with args.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    print(table(rows, args.budget))


if __name__ == "__main__":
    main()
