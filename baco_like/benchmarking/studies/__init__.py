"""Studies: strategies on functions and on recorded spaces, their figures, reports and plots."""

from baco_like.benchmarking.problems.recorded import RecordedProblem, RecordedSource, find_recorded
from baco_like.benchmarking.studies.figures import MeanRanks, Standing, StudyFigures
from baco_like.benchmarking.studies.plots import (
    plot_critical_difference,
    plot_curves,
    plot_scores,
    plot_wins,
)
from baco_like.benchmarking.studies.report import to_csv, to_markdown
from baco_like.benchmarking.studies.runs import Contender, RunBudget, RunJob, StrategyRun
from baco_like.benchmarking.studies.store import RunStore
from baco_like.benchmarking.studies.study import StudyResult, find_problems, study

__all__ = [
    "Contender",
    "MeanRanks",
    "RecordedProblem",
    "RecordedSource",
    "RunBudget",
    "RunJob",
    "RunStore",
    "Standing",
    "StrategyRun",
    "StudyFigures",
    "StudyResult",
    "find_problems",
    "find_recorded",
    "plot_critical_difference",
    "plot_curves",
    "plot_scores",
    "plot_wins",
    "study",
    "to_csv",
    "to_markdown",
]
