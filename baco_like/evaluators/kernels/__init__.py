"""Kernels of any language: problem files, parameters, settings of a measurement, and how a kernel is timed."""

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
    "Domain",
    "KernelSettings",
    "choice",
    "complete_config",
    "count",
    "list_values",
    "load_problem",
    "number_below",
    "order_of",
    "switch",
]
