"""A portfolio of pass pipelines: winners of runs, each next one the best addition over all programs (greedy cover)."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from compiler_suite import Suite

MOST = 12
"""Longest portfolio; later pipelines add little, and each costs an evaluation."""


def greedy_cover(ratios: np.ndarray, most: int = MOST) -> list[int]:
    """Return the pipelines in the order in which each adds most to the geometric mean of the best ratios.

    Args:
        ratios: The level's value over the pipeline's, for each pipeline and program; 0 if it fails.
        most: Most pipelines.
    """
    best, chosen = np.ones(ratios.shape[1]), list[int]()
    while len(chosen) < most:
        reached = np.maximum(ratios, best)
        added = np.log(reached / best).sum(axis=1)
        if added.max(initial=0.0) <= 0.0:
            break
        chosen.append(int(np.argmax(added)))
        best = reached[chosen[-1]]
    return chosen


def write_portfolio(suite: Suite, rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write the winners of some runs as a table of ideas; the value of each is its place."""
    winners = sorted({tuple(row["winner"]) for row in rows if row.get("winner")})
    problems = sorted({(row["space"], row["objective"], row["program"]) for row in rows})
    ratios = np.zeros((len(winners), len(problems)))
    for j, problem in enumerate(suite.problem(*own) for own in problems):
        for i, winner in enumerate(winners):
            value = problem.measure({"passes": winner})
            ratios[i, j] = 0.0 if value is None else problem.reference / value
    chosen = greedy_cover(ratios)
    with path.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["passes", "value"])
        table.writerows([",".join(winners[i]), place] for place, i in enumerate(chosen, 1))
    reached = np.maximum.accumulate(np.maximum(ratios[chosen], 1.0), axis=0)
    means = ", ".join(f"{m:.3f}" for m in np.exp(np.log(reached).mean(axis=1)))
    print(
        f"{len(chosen)} of {len(winners)} pipelines, best so far over {len(problems)} programs: {means}"
    )
