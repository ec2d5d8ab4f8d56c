"""Neighbours of configurations: which ones there are by each definition, for many rows at once; repairs by them."""

from baco_like.spaces.neighbourhoods.joint_change import (
    cascade,
    jointly_adjacent,
    nearest,
    strictly_adjacent,
)
from baco_like.spaces.neighbourhoods.single_change import (
    DRAWS,
    Neighbours,
    ParameterLocation,
    RandomChanges,
    adjacent,
    hamming,
    locate_parameters,
)

__all__ = [
    "DRAWS",
    "Neighbours",
    "ParameterLocation",
    "RandomChanges",
    "adjacent",
    "cascade",
    "hamming",
    "jointly_adjacent",
    "locate_parameters",
    "nearest",
    "strictly_adjacent",
]
