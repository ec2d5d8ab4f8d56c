"""Acquisition optimizers: they find the feasible configurations with the highest scores.

The public names are exported by `baco_like.acquisitions`.
"""

from baco_like.acquisitions.optimizers.alternating import AlternatingSearch
from baco_like.acquisitions.optimizers.exhaustive import ExhaustiveSearch
from baco_like.acquisitions.optimizers.gradient import GradientAscent
from baco_like.acquisitions.optimizers.local import LocalSearch
from baco_like.acquisitions.optimizers.protocol import AcquisitionOptimizer, IsExcluded
from baco_like.acquisitions.optimizers.sampled import SampledSearch

__all__ = [
    "AcquisitionOptimizer",
    "AlternatingSearch",
    "ExhaustiveSearch",
    "GradientAscent",
    "IsExcluded",
    "LocalSearch",
    "SampledSearch",
]
