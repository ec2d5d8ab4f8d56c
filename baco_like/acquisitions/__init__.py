"""Acquisition functions and acquisition optimizers.

An acquisition function says how promising a configuration is under a model; its score can be weighted by the
probability of feasibility and by the user's priors. An acquisition optimizer finds the feasible configurations with the
highest scores.
"""

from baco_like.acquisitions.functions import (
    ExpectedImprovement,
    LowerConfidenceBound,
    ProbabilityOfImprovement,
    ThompsonSampling,
    condition_on_pending,
    draw_minimum,
    weight_by_feasibility,
    weight_by_prior,
)
from baco_like.acquisitions.optimizers.gradient import GradientAscent
from baco_like.acquisitions.optimizers.searches import (
    AlternatingSearch,
    ExhaustiveSearch,
    LocalSearch,
    NearbySearch,
    SampledSearch,
)
from baco_like.acquisitions.protocol import (
    AcquisitionFunction,
    AcquisitionOptimizer,
    IsExcluded,
    Score,
)
from baco_like.acquisitions.selectors import AcquisitionSelector, AdvancedMulti, Multi

__all__ = [
    "AcquisitionFunction",
    "AcquisitionOptimizer",
    "AcquisitionSelector",
    "AdvancedMulti",
    "AlternatingSearch",
    "ExhaustiveSearch",
    "ExpectedImprovement",
    "GradientAscent",
    "IsExcluded",
    "LocalSearch",
    "LowerConfidenceBound",
    "Multi",
    "NearbySearch",
    "ProbabilityOfImprovement",
    "SampledSearch",
    "Score",
    "ThompsonSampling",
    "condition_on_pending",
    "draw_minimum",
    "weight_by_feasibility",
    "weight_by_prior",
]
