"""Run an optimizer: `tune` for a Python function, `run` for any evaluator, and the rules that end a run."""

from baco_like.running.front import plot_front
from baco_like.running.progress import Progress
from baco_like.running.stopping import (
    AllOf,
    AnyOf,
    IdenticalFailures,
    LowOutlook,
    MaxEvals,
    MaxFailures,
    MaxTime,
    NoImprovement,
    StoppingRule,
    Target,
)
from baco_like.running.summary import best_so_far, plot_convergence
from baco_like.running.tuner import Result, run, tune

__all__ = [
    "AllOf",
    "AnyOf",
    "IdenticalFailures",
    "LowOutlook",
    "MaxEvals",
    "MaxFailures",
    "MaxTime",
    "NoImprovement",
    "Progress",
    "Result",
    "StoppingRule",
    "Target",
    "best_so_far",
    "plot_convergence",
    "plot_front",
    "run",
    "tune",
]
