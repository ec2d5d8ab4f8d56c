"""Halide pipelines: schedules that are compiled just in time, checked and timed in a worker process.

Needs the extra ``halide``. A problem file (`baco_like.evaluators.kernels.problems`) has one more function:
``build(config, *buffers)`` returns the scheduled `halide.Func`. Ready files: ``examples/kernels/halide_*.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from baco_like._lazy import import_on_first_use

if TYPE_CHECKING:
    from baco_like.evaluators.halide.evaluator import HalideSettings, halide_evaluator

__all__ = ["HalideSettings", "halide_evaluator"]

_MODULES = ("evaluator",)
__getattr__, __dir__ = import_on_first_use(__name__, __all__, _MODULES)
