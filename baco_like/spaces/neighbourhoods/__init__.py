"""Neighbours of configurations: which ones there are by each definition, for many rows at once."""

from baco_like.spaces.neighbourhoods.definitions import (
    adjacent,
    hamming,
    index_distance,
    jointly_adjacent,
    strictly_adjacent,
)
from baco_like.spaces.neighbourhoods.proposals import (
    DRAWS,
    Neighbours,
    ParameterLocation,
    list_used_codes,
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
    "list_used_codes",
    "locate_parameters",
    "strictly_adjacent",
]
