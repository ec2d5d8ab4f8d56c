"""Ask/tell optimization for auto-tuning compilers and kernels.

The names in ``__all__`` are loaded on first use, so that importing the package is cheap.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from baco_like._lazy import import_on_first_use

if TYPE_CHECKING:
    from baco_like.exceptions import *
    from baco_like.optimizer import *
    from baco_like.parameters import *
    from baco_like.records import *
    from baco_like.running import *
    from baco_like.spaces import *

    __version__: str

_HOMES = ("exceptions", "parameters", "spaces", "records", "optimizer", "running")
"""The modules with the public names, in the order of their imports."""

__all__ = [
    "Aim",
    "BacoError",
    "BacoWarning",
    "Categorical",
    "ConfigError",
    "Confirm",
    "Cover",
    "EvaluatorError",
    "ExpressionError",
    "FailureWarning",
    "Gaussian",
    "Infeasible",
    "Integer",
    "JournalError",
    "LowOutlook",
    "MaxEvals",
    "MaxFailures",
    "MaxTime",
    "Measurement",
    "Measuring",
    "MissingExtra",
    "NoImprovement",
    "Optimizer",
    "Ordinal",
    "Outcome",
    "Permutation",
    "PiecewiseLinear",
    "PluginError",
    "Real",
    "Recheck",
    "Result",
    "RunFileError",
    "Search",
    "Sequence",
    "Sharing",
    "Space",
    "SpaceError",
    "SpaceExhausted",
    "SpaceWarning",
    "Status",
    "StrategyError",
    "Subset",
    "Target",
    "Tasks",
    "Trial",
    "TrialError",
    "WarmStart",
    "WarmStartWarning",
    "Workers",
    "run",
    "tune",
]


logging.getLogger(__name__).addHandler(logging.NullHandler())


_import_name, __dir__ = import_on_first_use(__name__, [*__all__, "__version__"], _HOMES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        # With the modules of email: a third of the time of this import.
        from importlib import (
            metadata,
        )

        return metadata.version("baco-like")
    return _import_name(name)
