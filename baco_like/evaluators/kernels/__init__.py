"""Kernels of any language: problem files, parameters, settings of a measurement, and how a kernel is timed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from baco_like._lazy import import_on_first_use

if TYPE_CHECKING:
    from baco_like.evaluators.comparison import BFLOAT16, from_bfloat16, to_bfloat16
    from baco_like.evaluators.kernels.arguments import InOut, Input, Output, Scalar
    from baco_like.evaluators.kernels.domains import (
        Domain,
        choice,
        complete_config,
        count,
        list_values,
        number_below,
        order_of,
        switch,
    )
    from baco_like.evaluators.kernels.problems import load_problem
    from baco_like.evaluators.kernels.settings import KernelSettings

__all__ = [
    "BFLOAT16",
    "Domain",
    "InOut",
    "Input",
    "KernelSettings",
    "Output",
    "Scalar",
    "choice",
    "complete_config",
    "count",
    "from_bfloat16",
    "list_values",
    "load_problem",
    "number_below",
    "order_of",
    "switch",
    "to_bfloat16",
]

_MODULES = (
    "domains",
    "problems",
    "settings",
)
__getattr__, __dir__ = import_on_first_use(__name__, __all__, _MODULES)
