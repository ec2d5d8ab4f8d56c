"""The worker of the Halide evaluator: builds pipelines, compiles them just in time and runs them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from baco_like.evaluators.kernels.problems import open_problem
from baco_like.evaluators.kernels.timing import (
    CompiledKernel,
    KernelLimits,
    KernelServer,
    copy_aligned,
    poison,
)


def serve(settings: Mapping[str, Any]) -> KernelServer:
    """Return the handler of requests."""
    import halide as hl

    problem, arrays, expected = open_problem(**settings["problem"])
    buffers = tuple(hl.Buffer(array) for array in arrays)
    output = copy_aligned(expected, len(arrays))
    target = hl.Target(settings["target"])

    def compile(config: Mapping[str, Any]) -> CompiledKernel:
        function = problem.build(config, *buffers)
        function.compile_jit(target)
        return _CompiledPipeline(function, buffers, hl.Buffer(output), target, output)

    return KernelServer(compile, expected, KernelLimits(**settings["limits"]))


@dataclass(frozen=True)
class _CompiledPipeline:
    function: Any
    inputs: tuple[Any, ...]  # held here because the function does not keep their memory alive
    output: Any
    target: Any
    array: NDArray[Any]  # the memory of the output
    # Halide numbers its names anew in every build, so equal pipelines have different texts; they also round constants.
    # Little is lost: in two runs of halide_blur, 6 of 149 pipelines were equal, and all runs took 1 % of all builds.
    identity: None = None

    def prepare(self) -> None:
        poison(self.array)

    def run(self) -> float:
        started = time.perf_counter()
        self.function.realize(self.output, self.target)
        return time.perf_counter() - started

    def result(self) -> NDArray[Any]:
        return self.array
