"""Studies: strategies on functions and on recorded spaces, their figures, reports and plots."""

from baco_like._drawing import save_figure
from baco_like.benchmarking.studies.archive import (
    describe_differences,
    read_archive,
    repeat_study,
    write_archive,
    write_results,
)
from baco_like.benchmarking.studies.plots import (
    FIGURES,
    plot_convergence,
    plot_critical_difference,
    plot_data_profile,
    plot_panels,
    plot_performance_profile,
    plot_scores,
    plot_targets,
    plot_time_to_target,
    plot_wins,
    save_figures,
)
from baco_like.benchmarking.studies.report import to_csv, to_latex, to_markdown
from baco_like.benchmarking.studies.runs import Contender, RunBudget
from baco_like.benchmarking.studies.study import StudyResult, find_problems, study

__all__ = [
    "FIGURES",
    "Contender",
    "RunBudget",
    "StudyResult",
    "describe_differences",
    "find_problems",
    "plot_convergence",
    "plot_critical_difference",
    "plot_data_profile",
    "plot_panels",
    "plot_performance_profile",
    "plot_scores",
    "plot_targets",
    "plot_time_to_target",
    "plot_wins",
    "read_archive",
    "repeat_study",
    "save_figure",
    "save_figures",
    "study",
    "to_csv",
    "to_latex",
    "to_markdown",
    "write_archive",
    "write_results",
]
