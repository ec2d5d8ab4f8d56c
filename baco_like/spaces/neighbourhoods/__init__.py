"""Neighbours of configurations: which ones there are by each definition, for many rows at once."""

from baco_like.spaces.neighbourhoods.all_parameters import (
    index_distance,
    jointly_adjacent,
    strictly_adjacent,
)
from baco_like.spaces.neighbourhoods.one_parameter import adjacent, hamming
from baco_like.spaces.neighbourhoods.proposals import (
    DRAWS,
    Neighbours,
    ParameterLocation,
    locate_parameters,
)

__all__ = [
    "DRAWS",
    "Neighbours",
    "ParameterLocation",
    "adjacent",
    "hamming",
    "index_distance",
    "jointly_adjacent",
    "locate_parameters",
    "strictly_adjacent",
]
