"""The strategies for several objectives, and limits on metrics, compared with Optuna's samplers and pymoo's NSGA-II.

    OMP_NUM_THREADS=1 python benchmarks/quality/several_objectives.py --data DIR --out rows.jsonl --seeds 20 \\
        --methods ehvi,random_search,nsga2,optuna_nsga2,pymoo_nsga2
    OMP_NUM_THREADS=1 python benchmarks/quality/several_objectives.py --data DIR --out rows.jsonl --seeds 0 \\
        --table several_objectives.md

`several_problems.py` has the problems. Runs append to `--out`; those that it has already are left out. `--limits` runs
one objective with limits on other metrics instead of two objectives. `--cost` compares the processor time of `suggest`
and `observe` with two objectives and with one.

A configuration counts as an evaluation the first time that it is requested. Repeated ones, and ones that a known
constraint excludes, are answered but not counted, in the favour of the other packages; a run ends after 50 questions
for each evaluation, or after `--seconds`. The other packages see numbers by their index, and one categorical parameter
for the feasible orders of a permutation. They get an excluded configuration as a violated constraint with the worst
values so far.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import runs
from several_problems import LIMITED, NAMES, Problem, limited_problem, problem

from baco_like import Aim, Categorical, Integer, Optimizer, Permutation
from baco_like.records.front import hypervolume

PATIENCE = 50
BUDGETS = (60, 120)
COST_AT = (20, 50, 100)
OURS = ("auto", "ehvi", "parego", "nsga2", "random_search")
REFERENCE = "ehvi"
RESAMPLES = 2000
MOST_LISTED = 100_000
POPULATION = 20


class Spent(Exception):
    """The run is over."""


class Questions:
    """Answers questions until the evaluations, the questions or the seconds are spent.

    Attributes:
        rows: The metrics of each evaluation, in order.
        cpu: Processor seconds after each evaluation.
    """

    def __init__(self, problem: Problem, evaluations: int, seconds: float) -> None:
        self.problem, self.evaluations, self.seconds = problem, evaluations, seconds
        self.rows: list[dict[str, float]] = []
        self.cpu: list[float] = []
        self.asked = 0
        self._known: dict[str, dict[str, float]] = {}
        self._began = time.process_time()

    def __call__(self, config: Mapping[str, Any]) -> dict[str, float] | None:
        """Return the metrics of a configuration, or None if a known constraint excludes it."""
        used = time.process_time() - self._began
        self.asked += 1
        spent = len(self.rows) >= self.evaluations or used > self.seconds
        if spent or self.asked > PATIENCE * self.evaluations:
            raise Spent
        key = json.dumps(dict(config), sort_keys=True)
        if key not in self._known:
            if not self.problem.space.contains(config):
                return None
            self._known[key] = self.problem.measure(config)
            self.rows.append(self._known[key])
            self.cpu.append(round(used, 3))
        return self._known[key]

    def worst(self, name: str) -> float:
        """Return the largest value of a metric so far."""
        return max((row[name] for row in self.rows), default=0.0)


# Methods -----------------------------------------------------------------------------------------------------------


def run_ours(name: str, questions: Questions, seed: int) -> None:
    known = questions.problem
    objectives = dict.fromkeys(known.objectives, "minimize")
    limits = [f"{metric} <= {bound!r}" for metric, bound in (known.limits or {}).items()]
    optimizer = Optimizer(
        known.space, Aim(objectives, limits), strategy=name, seed=seed, budget=questions.evaluations
    )
    while True:
        trial = optimizer.suggest()
        optimizer.observe(trial, questions(trial.config))


@cache
def choices(known: Problem) -> dict[str, tuple[Any, ...]]:
    """Return the values of each parameter; of a permutation the feasible orders."""
    size = known.space.feasible_size
    listed = size is not None and size <= MOST_LISTED
    configs = known.space.decode(known.space.feasible.listed) if listed else []
    values: dict[str, tuple[Any, ...]] = {}
    for name, parameter in known.space.parameters.items():
        if isinstance(parameter, Permutation):
            orders = {config[name] for config in configs} or permutations(parameter.elements)
            values[name] = tuple(sorted(orders))
        else:
            is_whole = isinstance(parameter, Integer)
            own = range(parameter.low, parameter.high + 1) if is_whole else parameter.values
            values[name] = tuple(own)
    return values


def _is_unordered(parameter: Any) -> bool:
    return isinstance(parameter, Categorical | Permutation)


def run_optuna(sampler: str, questions: Questions, seed: int, **options: Any) -> None:
    import optuna
    from optuna.distributions import CategoricalDistribution, IntDistribution

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    known = questions.problem
    study = optuna.create_study(
        directions=["minimize"] * len(known.objectives),
        sampler=getattr(optuna.samplers, sampler)(seed=seed, **options),
    )
    values = choices(known)
    distributions = {
        name: CategoricalDistribution(range(len(values[name])))
        if _is_unordered(parameter)
        else IntDistribution(0, len(values[name]) - 1)
        for name, parameter in known.space.parameters.items()
        if len(values[name]) > 1
    }
    is_constrained = bool(known.limits) or known.space.feasible_size != np.prod(
        [float(len(own)) for own in values.values()]
    )
    while True:
        trial = study.ask(distributions)
        row = questions({name: values[name][trial.params.get(name, 0)] for name in values})
        if is_constrained:
            trial.set_constraint("known", float(row is None))
        for metric, bound in (known.limits or {}).items():
            measured = questions.worst(metric) if row is None else row[metric]
            trial.set_constraint(metric, measured - bound)
        answer = [questions.worst(n) if row is None else row[n] for n in known.objectives]
        study.tell(trial, answer)


def run_pymoo(questions: Questions, seed: int) -> None:
    from pymoo.core.mixed import MixedVariableGA
    from pymoo.core.problem import ElementwiseProblem
    from pymoo.core.termination import NoTermination
    from pymoo.core.variable import Choice
    from pymoo.core.variable import Integer as Whole
    from pymoo.operators.survival.rank_and_crowding import RankAndCrowding

    known = questions.problem
    values = choices(known)
    variables = {
        name: Choice(options=list(range(len(values[name]))))
        if _is_unordered(parameter)
        else Whole(bounds=(0, len(values[name]) - 1))
        for name, parameter in known.space.parameters.items()
        if len(values[name]) > 1
    }

    class Asked(ElementwiseProblem):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(vars=variables, n_obj=len(known.objectives), n_ieq_constr=1)

        def _evaluate(self, x: Mapping[str, int], out: dict[str, Any], *_: Any, **__: Any) -> None:
            row = questions({name: values[name][x.get(name, 0)] for name in values})
            out["F"] = [questions.worst(n) if row is None else row[n] for n in known.objectives]
            out["G"] = [-1.0 if row is not None else 1.0]

    algorithm = MixedVariableGA(pop_size=POPULATION, survival=RankAndCrowding())
    algorithm.setup(Asked(), termination=NoTermination(), seed=seed, verbose=False)
    while algorithm.has_next():
        algorithm.next()


METHODS: Mapping[str, Callable[[Questions, int], None]] = {
    "optuna_gp": lambda q, seed: run_optuna("GPSampler", q, seed, deterministic_objective=True),
    "optuna_tpe": lambda q, seed: run_optuna("TPESampler", q, seed),
    "optuna_nsga2": lambda q, seed: run_optuna(
        "NSGAIISampler", q, seed, population_size=POPULATION
    ),
    "pymoo_nsga2": run_pymoo,
}


def one_run(name: str, known: Problem, seed: int, budget: int, seconds: float) -> dict[str, Any]:
    questions = Questions(known, budget, seconds)
    try:
        if name in OURS:
            run_ours(name, questions, seed)
        else:
            METHODS[name](questions, seed)
    except Spent:
        pass
    rounded = [{k: float(f"{v:.7g}") for k, v in row.items()} for row in questions.rows]
    at = [questions.cpu[min(n, len(questions.cpu)) - 1] for n in BUDGETS] if questions.cpu else []
    return {"rows": rounded, "cpu": at, "asked": questions.asked}


# Figures -----------------------------------------------------------------------------------------------------------


def share_of_volume(known: Problem, rows: Sequence[Mapping[str, float]]) -> float:
    """Return the dominated volume as a share of that of the best known front."""
    assert known.front is not None
    scale = np.log if known.is_log else np.asarray
    reference = scale(np.array(known.reference))
    values = np.array([[row[name] for name in known.objectives] for row in rows])
    if not len(values):
        return 0.0
    return hypervolume(scale(values), reference) / hypervolume(scale(known.front), reference)


def measure_violations(known: Problem, rows: Sequence[Mapping[str, float]]) -> tuple[float, float]:
    """Return the share of the evaluations beyond a limit, and the best value of the others (infinity without any).

    A share, because runs that mostly propose excluded configurations have fewer evaluations. It is NaN without any.
    """
    (objective,) = known.objectives
    limits = (known.limits or {}).items()
    within = [row for row in rows if all(row[name] <= bound for name, bound in limits)]
    best = min((row[objective] for row in within), default=np.inf)
    return (1.0 - len(within) / len(rows) if rows else np.nan), best


def interval(values: np.ndarray) -> tuple[float, float]:
    """Return the bootstrapped 95 % interval of the mean."""
    rng = np.random.default_rng(0)
    return runs.ends(rng.choice(values, (RESAMPLES, len(values))).mean(axis=1))


def difference(ours: np.ndarray, theirs: np.ndarray) -> tuple[float, float]:
    """Return the bootstrapped 95 % interval of the difference of two means."""
    rng = np.random.default_rng(0)
    draws = [rng.choice(v, (RESAMPLES, len(v))).mean(axis=1) for v in (ours, theirs)]
    return runs.ends(draws[0] - draws[1])


def table_of_volumes(rows: Sequence[Mapping[str, Any]], data: Path) -> str:
    head = ["problem", "method", "seeds", "volume after 60", "volume after 120"]
    lines = []
    counts = {n: dict[str, list[int]]() for n in BUDGETS}
    for name in NAMES:
        known = problem(name, data)
        volumes: dict[tuple[str, int], np.ndarray] = {}
        for method in dict.fromkeys(row["method"] for row in rows):
            own = [row for row in rows if (row["problem"], row["method"]) == (name, method)]
            cells = []
            for n in BUDGETS:
                enough = [row for row in own if row["budget"] >= n]
                if not enough:
                    cells.append("")
                    continue
                values = np.array([share_of_volume(known, row["rows"][:n]) for row in enough])
                volumes[method, n] = values
                low, high = interval(values)
                fewer = f", {len(enough)} seeds" if len(enough) < len(own) else ""
                cells.append(f"{values.mean():.3f} ({low:.3f} to {high:.3f}){fewer}")
            if own:
                seconds = [row["cpu"][0] for row in own if row["cpu"]]
                cells.append(f"{np.mean(seconds):.1f}" if seconds else "")
                lines.append([name, method, f"{len(own)}", *cells])
        for (method, n), values in volumes.items():
            if method != REFERENCE and (REFERENCE, n) in volumes:
                low, high = difference(volumes[REFERENCE, n], values)
                ahead = volumes[REFERENCE, n].mean() >= values.mean()
                tally = counts[n].setdefault(method, [0, 0, 0, 0])
                tally[0] += 1
                tally[1] += bool(ahead)
                tally[2] += low > 0
                tally[3] += high < 0
    table = runs.table([*head, "CPU seconds of 60"], lines)
    head = [f"`{REFERENCE}` compared with", "evaluations", "problems", "ahead"]
    tallies = [
        [method, f"{n}", *map(str, tally)]
        for n, of_methods in counts.items()
        for method, tally in of_methods.items()
    ]
    return f"{table}\n\n{runs.table([*head, 'clearly ahead', 'clearly behind'], tallies)}"


def table_of_limits(rows: Sequence[Mapping[str, Any]], data: Path) -> str:
    head = ["problem", "method", "seeds", "share beyond a limit", "best value within"]
    lines = []
    tallies: dict[str, list[int]] = {}
    for name in LIMITED:
        known = limited_problem(name, data)
        reached: dict[str, tuple[float, float]] = {}
        for method in dict.fromkeys(row["method"] for row in rows):
            own = [row for row in rows if (row["problem"], row["method"]) == (name, method)]
            if not own:
                continue
            figures = [measure_violations(known, row["rows"]) for row in own]
            beyond, best = map(np.array, zip(*figures, strict=True))
            beyond = beyond[~np.isnan(beyond)]
            reached[method] = (float(beyond.mean()) if len(beyond) else np.nan, np.median(best))
            found = best[np.isfinite(best)]
            share = "none"
            if len(beyond):
                low, high = interval(beyond)
                share = f"{beyond.mean():.2f} ({low:.2f} to {high:.2f})"
            text = "none"
            if len(found):
                ends = interval(found)
                text = f"{found.mean():.4g} ({ends[0]:.4g} to {ends[1]:.4g})"
                text += f" in {len(found)} of {len(own)}" if len(found) < len(own) else ""
            seconds = np.mean([row["cpu"][0] if row["cpu"] else 0.0 for row in own])
            lines.append([name, method, f"{len(own)}", share, text, f"{seconds:.1f}"])
        for method, (others, typical) in reached.items():
            if method != "auto" and "auto" in reached:
                is_fewer, is_best = reached["auto"][0] < others, reached["auto"][1] <= typical
                tally = tallies.setdefault(method, [0, 0, 0, 0])
                for i, counts in enumerate((True, is_fewer, is_best, is_fewer and is_best)):
                    tally[i] += counts
    table = runs.table([*head, "CPU seconds"], lines)
    head = ["`auto` compared with", "problems", "fewer beyond a limit", "best value no worse"]
    counts = [[method, *map(str, tally)] for method, tally in tallies.items()]
    return f"{table}\n\n{runs.table([*head, 'both'], counts)}"


def table_of_costs(names: Sequence[str], seeds: Sequence[int], data: Path) -> str:
    head = ["problem", "observations", "ms with one objective", "ms with two", "ratio"]
    lines = []
    for name in names:
        known = problem(name, data)
        times = np.array([step_times(known, seed) for seed in seeds])  # seeds, steps, (one, two)
        for n in COST_AT:
            # Five steps, the last of which suggests from n observations.
            one, two = np.median(times[:, n - 4 : n + 1], axis=1).T
            ratios = two / one
            times_shown = [f"{1e3 * one.mean():.1f}", f"{1e3 * two.mean():.1f}"]
            spread = f"{ratios.min():.2f} to {ratios.max():.2f}"
            lines.append([name, f"{n}", *times_shown, f"{np.median(ratios):.2f}", spread])
    return runs.table([*head, "range over seeds"], lines)


def step_times(known: Problem, seed: int) -> list[tuple[float, float]]:
    """Return processor seconds of each step with one objective and with two, alternating in this process."""
    first = known.objectives[0]
    settings = {"seed": seed, "budget": COST_AT[-1] + 1}
    optimizers = [
        Optimizer(known.space, {first: "minimize"}, **settings),
        Optimizer(known.space, dict.fromkeys(known.objectives, "minimize"), **settings),
    ]
    steps = []
    for _ in range(COST_AT[-1] + 1):
        step = []
        for optimizer in optimizers:
            began = time.process_time()
            trial = optimizer.suggest()
            used = time.process_time() - began
            values = known.measure(trial.config)
            began = time.process_time()
            optimizer.observe(trial, values)
            step.append(used + time.process_time() - began)
        steps.append((step[0], step[1]))
    return steps


def main() -> None:
    parser = runs.arguments(__doc__, seeds=5, budget=120, processes=1)
    add = parser.add_argument
    add("--first-seed", type=int, default=0)
    add("--seconds", type=float, default=600.0, help="CPU seconds of a run")
    add("--methods", default="ehvi,random_search", help="names, separated by commas")
    add("--problems", help="names, separated by commas; of --limits by semicolons; default: all")
    add("--limits", action="store_true", help="one objective with limits")
    add("--cost", action="store_true", help="print a table of processor times")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    if args.cost:
        names = args.problems.split(",") if args.problems else NAMES
        print(table_of_costs(names, seeds, args.data))
        return
    names = tuple(LIMITED) if args.limits else NAMES
    chosen = args.problems.split(";" if args.limits else ",") if args.problems else names
    jobs = [
        (name, method, seed, args.budget)
        for seed, method, name in product(seeds, args.methods.split(","), chosen)
    ]
    work = partial(one_job, args.data, args.limits, args.seconds)
    runs.finished(work, jobs, ("problem", "method", "seed", "budget"), args)
    if args.table:
        make = table_of_limits if args.limits else table_of_volumes
        runs.publish(make(runs.rows_of(args.out), args.data), args.table)


def one_job(
    data: Path, limits: bool, seconds: float, name: str, method: str, seed: int, budget: int
) -> runs.Row:
    known = (limited_problem if limits else problem)(name, data)
    keys = {"problem": name, "method": method, "seed": seed, "budget": budget}
    return {**keys, **one_run(method, known, seed, budget, seconds)}


if __name__ == "__main__":
    main()
