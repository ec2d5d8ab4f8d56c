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
)
from baco_like.acquisitions.optimizers import LocalSearch, SampledSearch
from baco_like.acquisitions.protocol import AcquisitionFunction, AcquisitionOptimizer, Score

__all__ = [
    "AcquisitionFunction",
    "AcquisitionOptimizer",
    "ExpectedImprovement",
    "LocalSearch",
    "LowerConfidenceBound",
    "ProbabilityOfImprovement",
    "SampledSearch",
    "Score",
    "ThompsonSampling",
]
