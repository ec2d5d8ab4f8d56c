"""Compare searches on the spaces that Helion gives three kernels, with 20 models of their run times.

    OMP_NUM_THREADS=1 python benchmarks/quality/helion_spaces.py [--out runs.jsonl] [--table helion_spaces.md]

It needs `helion` and no GPU. The models know parts that real kernels have: an optimum for each tile, for the elements
of a thread and for the stages, which interact; a limit on shared memory, beyond which the build fails; spilled
registers; and small effects of all other choices. Their numbers are drawn from the number of the model alone.
"""

import contextlib
import hashlib
import itertools
import json
import math
import random
import statistics
import warnings
from functools import cache, partial
from typing import Any

import numpy as np
import runs

KERNELS = ("matmul", "softmax", "attention")
MODELS = 20
BUDGETS = (50, 100)
OURS = {"ours": 1, "ours, 4 at once": 4}
THEIRS = {
    "LFBOTreeSearch": "full",  # Helion's default
    "LFBOTreeSearch, quick": "quick",
    "PatternSearch": "full",
    "PatternSearch, quick": "quick",
}
CONTENDERS = (*OURS, *THEIRS, "random")


class Model:
    """The time of a kernel's configurations in ms, or None for a failed build; its numbers come from a seed."""

    def __init__(self, number: int) -> None:
        self.draw = random.Random(number)
        self.number = number
        draw = self.draw.uniform
        self.tiles = [(draw(3, 8), draw(0.01, 0.12)) for _ in range(4)]
        self.elements = draw(2, 6), draw(0.01, 0.08)
        self.stages = draw(1.5, 5), draw(0.01, 0.05)
        self.memory = draw(15, 18)  # log2 of bytes
        self.spill = draw(7.5, 10)
        self.overlap = draw(-0.06, 0.06)
        self.scale = draw(0.05, 2)
        self.sizes: dict[str, tuple[float, float]] = {}

    def time(self, config: dict[str, Any]) -> float | None:
        tiles = [math.log2(size) for size in config["block_sizes"]]
        stages, warps = config.get("num_stages", 1), config.get("num_warps", 4)
        pairs = [2.0 ** (a + b + 1) for a, b in itertools.combinations(tiles, 2)]
        if math.log2(stages * sum(pairs or [2.0 ** (tiles[0] + 8)])) > self.memory + 1:
            return None
        cost = sum(c * (t - o) ** 2 for t, (o, c) in zip(tiles, self.tiles, strict=False))
        elements = sum(tiles) - math.log2(32 * warps) - (3 if len(tiles) > 2 else 0)
        cost += self.elements[1] * (elements - self.elements[0]) ** 2
        cost += 0.4 * max(0.0, elements - self.spill)
        cost += self.stages[1] * (stages - self.stages[0]) ** 2
        cost += self.overlap * (stages - 3) * (tiles[-1] - 5)
        others = {
            k: v for k, v in config.items() if k not in ("block_sizes", "num_warps", "num_stages")
        }
        for key, value in sorted(others.items()):
            for place, element in enumerate(value if isinstance(value, list) else [value]):
                cost += self._effect(f"{key}[{place}]", key, element)
        noise = self._draw(json.dumps(config, sort_keys=True)).gauss(0, 0.01)
        return self.scale * math.exp(cost + noise)

    def _draw(self, name: str) -> random.Random:
        text = f"{self.number}/{name}".encode()
        return random.Random(int.from_bytes(hashlib.sha256(text).digest()[:8], "big"))

    def _effect(self, slot: str, key: str, value: Any) -> float:
        draw = self._draw(slot)
        if isinstance(value, int) and not isinstance(value, bool) and not isinstance(value, list):
            best, curvature = draw.uniform(0, 5), draw.uniform(0, 0.02)
            size = math.log2(value) if key in ("l2_groupings", "num_sm_multiplier") else value
            return curvature * (min(size, 8) - best) ** 2
        spread = {"loop_orders": 0.12, "pid_type": 0.1, "reduction_loops": 0.1}.get(key, 0.04)
        return self._draw(f"{slot}={value}").gauss(0, spread)


class Enough(Exception):
    """The budget of a run is spent."""


def provider(model: Model, values: list[float | None], budget: int):
    """Return a benchmark provider of Helion that asks the model, and keeps the values of the first configurations."""
    from helion.autotuner.benchmark_provider import BenchmarkProvider, BenchmarkResult

    known: dict[str, float | None] = {}

    class Provider(BenchmarkProvider):
        mutated_arg_indices = ()

        def __init__(self, **given: Any) -> None:
            self.metrics = given["autotune_metrics"]

        def setup(self) -> None:
            pass

        def cleanup(self) -> None:
            pass

        def benchmark(self, configs, *, desc="", raise_if_no_viable_config=True):
            return [self.result(config) for config in configs]

        def result(self, config):
            text = config.to_json()
            if text not in known:
                if len(values) >= budget:
                    raise Enough
                known[text] = model.time(config.config)
                values.append(known[text])
            time = known[text]
            status = "error" if time is None else "ok"
            time = math.inf if time is None else time
            return BenchmarkResult(config, print, time, status, None if status == "error" else 1.0)

    return Provider


@cache
def kernel(name: str):
    from helion_kernels import bound

    return bound(name)


def one_run(number: int, contender: str, seed: int, budget: int) -> dict[str, Any]:
    from helion.autotuner import search_algorithms
    from helion.autotuner.effort_profile import get_effort_profile

    from baco_like.integrations.helion import BacoAutotuner

    bound, args = kernel(KERNELS[number % len(KERNELS)])
    bound.settings.autotune_random_seed = seed
    bound.settings.autotune_log_level = 0
    bound.settings.autotune_progress_bar = False
    bound.settings.autotune_rebenchmark_threshold = 0.0
    values: list[float | None] = []
    make = provider(Model(number), values, budget)
    if contender in THEIRS:
        bound.settings.autotune_effort = THEIRS[contender]
        algorithm = search_algorithms[contender.partition(",")[0]]
        profile = get_effort_profile(THEIRS[contender])
        search = algorithm(
            bound, args, **algorithm.get_kwargs_from_profile(profile, bound.settings)
        )
        search._benchmark_provider_cls = make
    else:
        strategy = "random_search" if contender == "random" else "auto"
        search = BacoAutotuner(
            *(bound, args),
            evaluations=budget,
            batch=OURS.get(contender, 1),
            strategy=strategy,
            storage=None,
            confirm=None,
            benchmark_provider_cls=make,
        )
        search._journal = lambda: None
    with contextlib.suppress(Enough):
        search.autotune(skip_cache=True)
    return {"model": number, "contender": contender, "seed": seed, "values": values}


def report(rows: list[dict[str, Any]]) -> str:
    """Return the mean of the best time relative to the best known of each model, and the wins over Helion's default."""
    best = {
        number: min(v for r in rows if r["model"] == number for v in r["values"] if v is not None)
        for number in {row["model"] for row in rows}
    }
    ratios: dict[tuple[str, int], dict[tuple[int, int], float]] = {}
    for row in rows:
        for n in BUDGETS:
            found = runs.best_after(row["values"], n) / best[row["model"]]
            ratios.setdefault((row["contender"], n), {})[row["model"], row["seed"]] = found
    lines = []
    for contender in CONTENDERS:
        if (contender, BUDGETS[0]) not in ratios:
            continue
        cells: list[Any] = [contender]
        for n in BUDGETS:
            own, default = ratios[contender, n], ratios.get(("LFBOTreeSearch", n), {})
            logs = np.log(list(own.values()))
            mean, low, high = (math.exp(x) for x in runs.interval(logs))
            shared = [own[k] < default[k] for k in own if k in default]
            won = f"{100 * statistics.mean(shared):.0f} %" if shared else ""
            cells += [f"{mean:.3f} ({low:.3f} to {high:.3f})", won]
        lines.append([*cells, str(len(own))])
    head = [x for n in BUDGETS for x in (f"time after {n}", "ahead of the default")]
    return runs.table(["", *head, "runs"], lines)


def main() -> None:
    parser = runs.arguments(__doc__, seeds=10, budget=BUDGETS[-1], contenders=CONTENDERS)
    parser.add_argument("--models", type=int, default=MODELS)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    seeds, models = range(args.seeds), range(args.models)
    jobs = [(n, each, seed) for seed in seeds for n in models for each in args.contenders]
    work = partial(one_run, budget=args.budget)
    rows = runs.finished(work, jobs, ("model", "contender", "seed"), args)
    text = f"# Helion's search spaces, {MODELS} models of run times\n\n{runs.provenance()}\n\n"
    explained = (
        "Geometric mean over models and seeds of the best time, relative to the best known time of the model, with its "
        "95 % bootstrap interval; and the share of runs that are ahead of Helion's default search (full effort)."
    )
    runs.publish(f"{text}{report(rows)}\n\n{explained}", args.table)


if __name__ == "__main__":
    main()
