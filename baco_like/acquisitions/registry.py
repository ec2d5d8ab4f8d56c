"""Names of acquisition functions, for the setting ``acquisition`` of the model-based strategies."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from baco_like._plugins import Plugin, Registry
from baco_like.acquisitions.functions import (
    ExpectedImprovement,
    LowerConfidenceBound,
    ProbabilityOfImprovement,
)
from baco_like.acquisitions.protocol import AcquisitionFunction

_OWN: Mapping[str, Callable[[], AcquisitionFunction]] = {
    "ei": ExpectedImprovement,
    "poi": ProbabilityOfImprovement,
    "lcb": LowerConfidenceBound,
}

REGISTRY = Registry("baco_like.acquisitions", "acquisition function", _OWN, "ei")
"""Expected improvement, probability of improvement, the lower confidence bound, and those of plug-ins."""


def create_acquisition(name: str) -> AcquisitionFunction:
    """Return the acquisition function with this name and its default settings.

    Raises:
        ValueError: The name is unknown.
        PluginError: The plug-in cannot be imported, or makes something else than an acquisition function.
    """
    part = REGISTRY.find(name)
    if not isinstance(part, Plugin):
        return part()
    function: AcquisitionFunction = part.create(("bind",))
    return function
