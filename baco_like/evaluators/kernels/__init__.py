"""Kernels of any language: problem files, their arguments, how a kernel is timed, and the evaluators by language.

- `problems` and `arguments`: problem files; the names that they need are imported from this package;
- `c`, `opencl`, `cuda`, `halide`: the evaluators, each with its worker (`c_worker`, ...);
- `timing`: measures a kernel in the worker; `bench`: the settings of all languages, and what asks the worker.
"""

from baco_like.evaluators.comparison import BFLOAT16, from_bfloat16, to_bfloat16
from baco_like.evaluators.kernels.arguments import InOut, Input, Output, Scalar
from baco_like.evaluators.kernels.problems import (
    Domain,
    choice,
    complete_config,
    count,
    list_values,
    load_problem,
    number_below,
    order_of,
    switch,
)

__all__ = [
    "BFLOAT16",
    "Domain",
    "InOut",
    "Input",
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
