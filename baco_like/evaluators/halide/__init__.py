"""Halide pipelines: schedules that are compiled just in time, checked and timed in a worker process.

Needs the extra ``halide``. A problem file (`baco_like.evaluators.kernels.problems`) has one more function:
``build(config, *buffers)`` returns the scheduled `halide.Func`. Ready files: ``examples/kernels/halide_*.py``.
"""

from baco_like.evaluators.halide.evaluator import HalideSettings, halide_evaluator

__all__ = ["HalideSettings", "halide_evaluator"]
