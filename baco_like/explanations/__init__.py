"""Explain a run: which parameters matter, what each change brings, and whether it is worth going on.

`Optimizer` has a method for each; with `fit_models` several explanations of the same history share their models.
"""

from baco_like.explanations.ablation import Ablation, AblationStep, find_ablation
from baco_like.explanations.dependence import Dependence, DependencePoint, compute_dependence
from baco_like.explanations.importance import Effect, Importance, compute_importance
from baco_like.explanations.models import (
    Calibration,
    HistoryModels,
    LeftOut,
    compute_calibration,
    fit_models,
)
from baco_like.explanations.outlook import Outlook, estimate_outlook

__all__ = [
    "Ablation",
    "AblationStep",
    "Calibration",
    "Dependence",
    "DependencePoint",
    "Effect",
    "HistoryModels",
    "Importance",
    "LeftOut",
    "Outlook",
    "compute_calibration",
    "compute_dependence",
    "compute_importance",
    "estimate_outlook",
    "find_ablation",
    "fit_models",
]
