"""Compare strategies on recorded spaces: run them, keep the runs, score them, write tables and plots."""

from baco_like.benchmarking.comparison.figures import ComparisonFigures, Standing, compute_figures
from baco_like.benchmarking.comparison.plan import ComparisonPlan, compare, run_missing
from baco_like.benchmarking.comparison.plots import plot_scores, plot_wins
from baco_like.benchmarking.comparison.report import to_csv, to_markdown
from baco_like.benchmarking.comparison.runs import Contender, RunBudget, RunJob, StrategyRun
from baco_like.benchmarking.comparison.spaces import RecordedSpace, SpaceSource, find_spaces
from baco_like.benchmarking.comparison.store import ComparisonSpecification, RunStore

__all__ = [
    "ComparisonFigures",
    "ComparisonPlan",
    "ComparisonSpecification",
    "Contender",
    "RecordedSpace",
    "RunBudget",
    "RunJob",
    "RunStore",
    "SpaceSource",
    "Standing",
    "StrategyRun",
    "compare",
    "compute_figures",
    "find_spaces",
    "plot_scores",
    "plot_wins",
    "run_missing",
    "to_csv",
    "to_markdown",
]
