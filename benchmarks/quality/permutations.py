"""Which distance of permutations suits which problem: the distances in plain Bayesian optimization, and the default.

    python benchmarks/quality/permutations.py --seeds 10 --table benchmarks/quality/results/permutations.md

The default strategy adds three groups of features of orders to the distance, and learns which of them count. The
strategy ``bayesian`` sees the distance alone. The table has the mean regret after all evaluations, as a percentage of
the mean regret of random search, with the 95 % interval of the mean by bootstrap.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from baco_like import Permutation, Space
from baco_like.benchmarking import study
from baco_like.benchmarking.comparison.runs import Contender
from baco_like.benchmarking.problems import FunctionProblem, load_problem

PROBLEMS = {
    "tour_8": "who is next to whom",
    "assignment_8": "which element is at which place",
    "schedule_8": "which element is before which",
    "hartmann_order": "which element is at which place",
}
"""The problems, and what their cost depends on."""

DISTANCES = ("spearman", "kendall", "hamming", "naive")
RANDOM = "random_search"


def with_distance(name: str, distance: str) -> FunctionProblem:
    """Return a problem whose order has another distance."""
    problem = load_problem(name)
    order = problem.space.parameters["order"]
    assert isinstance(order, Permutation)
    texts = [constraint.text for constraint in problem.space.constraints]
    space = Space({"order": Permutation(order.elements, metric=distance)}, texts)
    return replace(problem, name=f"{name}, {distance}", space=space, origin=None)


def measure(name: str, seeds: int, evaluations: int) -> dict[str, np.ndarray]:
    """Return the regrets of all runs by the label of the strategy, ``(seeds,)``."""
    jobs = [(Contender(distance, "bayesian"), distance) for distance in DISTANCES]
    jobs += [
        (Contender("auto", "auto"), "spearman"),
        (Contender("auto, hamming", "auto"), "hamming"),
    ]
    jobs.append((Contender(RANDOM, RANDOM), "spearman"))
    regrets = {}
    for contender, distance in jobs:
        frame = study([contender], [with_distance(name, distance)], seeds, evaluations)
        regrets[contender.label] = frame.groupby("seed").regret.last().to_numpy()
    return regrets


def describe(values: np.ndarray, reference: float) -> str:
    """Return the mean as a percentage of a reference, with its 95 % interval by 10,000 bootstrap samples."""
    rng = np.random.default_rng(0)
    shares = 100 * values / reference
    means = shares[rng.integers(0, len(shares), (10_000, len(shares)))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return f"{shares.mean():.0f} ({low:.0f} to {high:.0f})"


def table(results: Mapping[str, Mapping[str, np.ndarray]]) -> str:
    """Return the results in Markdown."""
    labels = [label for label in next(iter(results.values())) if label != RANDOM]
    lines = [
        f"| problem | the cost depends on | {' | '.join(labels)} |",
        "|---|---" + "|---:" * len(labels) + "|",
    ]
    for name, regrets in results.items():
        reference = float(regrets[RANDOM].mean())
        cells = [describe(regrets[label], reference) for label in labels]
        lines.append(f"| `{name}` | {PROBLEMS[name]} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--evaluations", type=int, default=40)
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    parser.add_argument("--table", type=Path, help="Markdown file to write")
    given = parser.parse_args()
    results = {}
    for name in given.problems.split(","):
        results[name] = measure(name, given.seeds, given.evaluations)
        print(table(results), flush=True)
        if given.table is not None:
            head = f"# Distances of permutations\n\n{given.seeds} seeds, {given.evaluations} evaluations"
            given.table.write_text(
                f"{head}; regret in percent of random search's.\n\n{table(results)}"
            )


if __name__ == "__main__":
    main()
