"""Ask/tell optimization for auto-tuning compilers and kernels.

The names below are the public interface; they are loaded on first use, so that importing the package is cheap.
"""

from __future__ import annotations

import importlib
from importlib import metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from baco_like.exceptions import (
        BacoError,
        BacoWarning,
        ConfigError,
        EvaluatorError,
        ExpressionError,
        FailureWarning,
        Infeasible,
        JournalError,
        MissingExtra,
        RunFileError,
        SpaceError,
        SpaceExhausted,
        SpaceWarning,
        StrategyError,
        TrialError,
        WarmStartWarning,
    )

    __version__: str
    from baco_like.optimizer import Optimizer, WarmStart, migrate
    from baco_like.parameters.categorical import Categorical
    from baco_like.parameters.integer import Integer
    from baco_like.parameters.ordinal import Ordinal
    from baco_like.parameters.permutation import Permutation
    from baco_like.parameters.priors import Gaussian, PiecewiseLinear
    from baco_like.parameters.real import Real
    from baco_like.records.trial import Outcome, Status, Trial
    from baco_like.running import (
        MaxEvals,
        MaxFailures,
        MaxTime,
        NoImprovement,
        Result,
        Target,
        run,
        tune,
    )
    from baco_like.spaces.space import Space

_HOME = {
    "running": (
        "MaxEvals",
        "MaxFailures",
        "MaxTime",
        "NoImprovement",
        "Result",
        "Target",
        "run",
        "tune",
    ),
    "exceptions": (
        "BacoError",
        "BacoWarning",
        "ConfigError",
        "EvaluatorError",
        "ExpressionError",
        "FailureWarning",
        "Infeasible",
        "JournalError",
        "MissingExtra",
        "RunFileError",
        "SpaceError",
        "SpaceExhausted",
        "SpaceWarning",
        "StrategyError",
        "TrialError",
        "WarmStartWarning",
    ),
    "optimizer": ("Optimizer", "WarmStart", "migrate"),
    "records.trial": ("Outcome", "Status", "Trial"),
    "parameters.categorical": ("Categorical",),
    "parameters.integer": ("Integer",),
    "parameters.ordinal": ("Ordinal",),
    "parameters.permutation": ("Permutation",),
    "parameters.priors": ("Gaussian", "PiecewiseLinear"),
    "parameters.real": ("Real",),
    "spaces.space": ("Space",),
}
_MODULES = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "BacoError",
    "BacoWarning",
    "Categorical",
    "ConfigError",
    "EvaluatorError",
    "ExpressionError",
    "FailureWarning",
    "Gaussian",
    "Infeasible",
    "Integer",
    "JournalError",
    "MaxEvals",
    "MaxFailures",
    "MaxTime",
    "MissingExtra",
    "NoImprovement",
    "Optimizer",
    "Ordinal",
    "Outcome",
    "Permutation",
    "PiecewiseLinear",
    "Real",
    "Result",
    "RunFileError",
    "Space",
    "SpaceError",
    "SpaceExhausted",
    "SpaceWarning",
    "Status",
    "StrategyError",
    "Target",
    "Trial",
    "TrialError",
    "WarmStart",
    "WarmStartWarning",
    "migrate",
    "run",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = metadata.version("baco-like")
    elif name in _MODULES:
        value = getattr(importlib.import_module(f"baco_like.{_MODULES[name]}"), name)
    else:
        raise AttributeError(f"module 'baco_like' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
