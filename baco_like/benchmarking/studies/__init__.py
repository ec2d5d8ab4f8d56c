"""Studies: strategies on functions with a space, their results as a DataFrame, tables and plots."""

from baco_like.benchmarking.studies.plots import plot_critical_difference, plot_curves
from baco_like.benchmarking.studies.runs import StudyJob
from baco_like.benchmarking.studies.study import find_problems, study
from baco_like.benchmarking.studies.tables import (
    MeanRanks,
    mean_ranks,
    study_to_markdown,
    summarise_study,
)

__all__ = [
    "MeanRanks",
    "StudyJob",
    "find_problems",
    "mean_ranks",
    "plot_critical_difference",
    "plot_curves",
    "study",
    "study_to_markdown",
    "summarise_study",
]
