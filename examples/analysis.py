"""Measure how hard a recorded space is, and score a strategy on it.

Run it with: python examples/analysis.py [EVALUATIONS]
"""

import sys
from pathlib import Path

import numpy as np

from baco_like import MaxEvals, Optimizer, Space, run
from baco_like.benchmarking import landscape, score
from baco_like.evaluators import ReplayEvaluator
from baco_like.results import read

RECORDED = Path(__file__).parents[1] / "benchmarks" / "recorded" / "hidden.json.gz"
RUNS = 5


def configurations(recorded):
    return [dict(zip(recorded.names, values, strict=True)) for values in recorded.entries]


def tuned(recorded, space, strategy, evaluations, seed):
    """Return the optimizer after a run on the table."""
    optimizer = Optimizer(space, seed=seed, strategy=strategy)
    run(optimizer, ReplayEvaluator(recorded), MaxEvals(evaluations))
    return optimizer


def main(evaluations):
    recorded = read(RECORDED)
    space = Space.from_dataframe(configurations(recorded))
    graph = landscape.flow_graph(recorded)
    print(
        f"{len(graph.costs)} configurations, {(~graph.ran).sum()} fail, {len(graph.minima)} local minima"
    )
    near = landscape.proportion_of_centrality(recorded, 0.05)  # one share; a graph gives several
    print(f"local search ends within 5 % of the optimum: {near:.0%}")
    print(f"local search ends within 10 % of the optimum: {graph.centrality_curve((0.10,))[0]:.0%}")

    baseline = score.Baseline.from_recorded(recorded)
    print(f"random search gets 95 % of the way within {baseline.evaluations()[1]} evaluations")
    for strategy in ("random_search", "genetic_algorithm"):
        runs = [tuned(recorded, space, strategy, evaluations, seed) for seed in range(RUNS)]
        curves = score.best_so_far([[trial.value for trial in one.trials] for one in runs])
        seconds = np.cumsum([recorded_seconds(recorded, one) for one in runs], axis=1)
        fraction = score.fraction_of_optimum(curves[:, -1], baseline.optimum).mean()
        print(
            f"{strategy}: score {score.score(curves, baseline).mean:.2f} over evaluations, "
            f"{score.score_over_time(curves, seconds, baseline).mean:.2f} over time; "
            f"best found {fraction:.0%} of the optimum"
        )
    if np.isfinite(runs[0].history.costs).sum() >= landscape.MIN_SUCCESSES:
        rng = np.random.default_rng(0)
        guess = landscape.estimate_centrality_curve(runs[0].history, rng, (0.10,))[0]
        print(f"what {evaluations} evaluations let one expect of local search: {guess:.0%}")


def recorded_seconds(recorded, optimizer):
    """Return what compiling, running and checking took, by evaluation."""
    return [sum(recorded.find(trial.config).seconds.values()) for trial in optimizer.trials]


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
