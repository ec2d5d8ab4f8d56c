"""Adapters that run this optimizer inside other tuners, and converters of their spaces.

Each name is imported on first use, because it needs the extra package of its tool. Where the package is missing the
`MissingExtra` error names the command that installs it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from baco_like.integrations.ax.node import BacoNode
    from baco_like.integrations.configspace.conversion import (
        from_configuration,
        to_configspace,
        to_configuration,
    )
    from baco_like.integrations.gest.generator import BacoGenerator
    from baco_like.integrations.gest.variables import vocs_variables
    from baco_like.integrations.hypermapper.samples import (
        observe_samples,
        read_samples,
        write_samples,
    )
    from baco_like.integrations.hypermapper.scenario import read_scenario
    from baco_like.integrations.kernel_tuner import tune_cache, tune_kernel
    from baco_like.integrations.kernel_tuner.strategy import BacoStrategy
    from baco_like.integrations.optuna.sampler import BacoSampler
    from baco_like.integrations.optuna.space import (
        from_optuna,
        optuna_distributions,
        suggest_config,
        to_optuna,
    )
    from baco_like.integrations.pyatf.technique import BacoTechnique
    from baco_like.integrations.ray.searcher import BacoSearch

__all__ = [
    "BacoGenerator",
    "BacoNode",
    "BacoSampler",
    "BacoSearch",
    "BacoStrategy",
    "BacoTechnique",
    "from_configuration",
    "from_optuna",
    "observe_samples",
    "optuna_distributions",
    "read_samples",
    "read_scenario",
    "suggest_config",
    "to_configspace",
    "to_configuration",
    "to_optuna",
    "tune_cache",
    "tune_kernel",
    "vocs_variables",
    "write_samples",
]

_NAMES_BY_MODULE = {
    "ax.node": "BacoNode",
    "configspace.conversion": "from_configuration to_configspace to_configuration",
    "gest.generator": "BacoGenerator",
    "gest.variables": "vocs_variables",
    "hypermapper.samples": "observe_samples read_samples write_samples",
    "hypermapper.scenario": "read_scenario",
    "kernel_tuner": "tune_cache tune_kernel",
    "kernel_tuner.strategy": "BacoStrategy",
    "optuna.sampler": "BacoSampler",
    "optuna.space": "from_optuna optuna_distributions suggest_config to_optuna",
    "pyatf.technique": "BacoTechnique",
    "ray.searcher": "BacoSearch",
}
_MODULES = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
