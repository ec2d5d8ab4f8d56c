"""Neighbours of configurations: which ones there are by each definition, for many rows at once."""

from baco_like.spaces.neighbourhoods.joint_change import (
    index_distance,
    jointly_adjacent,
    strictly_adjacent,
)
from baco_like.spaces.neighbourhoods.proposals import (
    DRAWS,
    Neighbours,
    ParameterLocation,
    locate_parameters,
)
from baco_like.spaces.neighbourhoods.single_change import RandomChanges, adjacent, hamming

__all__ = [
    "DRAWS",
    "Neighbours",
    "ParameterLocation",
    "RandomChanges",
    "adjacent",
    "hamming",
    "index_distance",
    "jointly_adjacent",
    "locate_parameters",
    "strictly_adjacent",
]
