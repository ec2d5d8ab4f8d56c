"""Adapters that run this optimizer inside other tuners, and converters of their spaces.

The names of other tools are imported on first use, because they need the extra package of the tool. Where it is missing
the `MissingExtra` error names the command that installs it. The adapters inside compilers are the modules `helion`,
`triton` and `tvm`; the module `smt` reads the problems that compilers state.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from baco_like.integrations.hypermapper.scenario import read_scenario
from baco_like.integrations.hypermapper.server import observe_samples
from baco_like.results.hypermapper_csv import read_csv as read_samples
from baco_like.results.hypermapper_csv import write_csv as write_samples

if TYPE_CHECKING:
    from baco_like.integrations import helion, smt, triton, tvm
    from baco_like.integrations.ax import *
    from baco_like.integrations.configspace import *
    from baco_like.integrations.gest import *
    from baco_like.integrations.kernel_tuner import *
    from baco_like.integrations.optuna import *
    from baco_like.integrations.pyatf import *
    from baco_like.integrations.ray import *

__all__ = [
    "BacoGenerator",
    "BacoNode",
    "BacoSampler",
    "BacoSearch",
    "BacoStrategy",
    "BacoTechnique",
    "from_configuration",
    "from_optuna",
    "helion",
    "observe_samples",
    "optuna_distributions",
    "read_samples",
    "read_scenario",
    "smt",
    "suggest_config",
    "to_configspace",
    "to_configuration",
    "to_optuna",
    "triton",
    "tune_cache",
    "tune_kernel",
    "tvm",
    "vocs_variables",
    "write_samples",
]

_NAMES = {
    "ax": "BacoNode",
    "configspace": "from_configuration to_configspace to_configuration",
    "gest": "BacoGenerator vocs_variables",
    "kernel_tuner": "BacoStrategy tune_cache tune_kernel",
    "optuna": "BacoSampler from_optuna optuna_distributions suggest_config to_optuna",
    "pyatf": "BacoTechnique",
    "ray": "BacoSearch",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}


_COMPILERS = ("helion", "smt", "triton", "tvm")
"""Modules whose names are not imported here, because two of them have an ``autotune``."""


def __getattr__(name: str) -> Any:
    if name in _COMPILERS:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
