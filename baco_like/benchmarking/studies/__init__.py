"""Studies: strategies on functions and on recorded spaces, their figures, reports and plots."""

from baco_like.benchmarking.studies.archive import (
    describe_differences,
    read_archive,
    repeat_study,
    write_archive,
    write_results,
)
from baco_like.benchmarking.studies.plots import (
    plot_critical_difference,
    plot_curves,
    plot_scores,
    plot_wins,
)
from baco_like.benchmarking.studies.report import to_csv, to_latex, to_markdown
from baco_like.benchmarking.studies.runs import Contender, RunBudget
from baco_like.benchmarking.studies.study import StudyResult, find_problems, study

__all__ = [
    "Contender",
    "RunBudget",
    "StudyResult",
    "describe_differences",
    "find_problems",
    "plot_critical_difference",
    "plot_curves",
    "plot_scores",
    "plot_wins",
    "read_archive",
    "repeat_study",
    "study",
    "to_csv",
    "to_latex",
    "to_markdown",
    "write_archive",
    "write_results",
]
