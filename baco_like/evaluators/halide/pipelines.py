"""What runs in the worker of the Halide evaluator: pipelines are built, compiled just in time and realised."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from numpy.typing import NDArray

from baco_like.evaluators.kernels.problems import opened
from baco_like.evaluators.kernels.serving import Kernel, Plan, Server, aligned, poison


def serve(settings: Mapping[str, Any]) -> Server:
    """Return the handler of requests, each a complete configuration."""
    import halide as hl

    problem, arrays, expected = opened(
        settings["problem"], settings["size"], settings["input_seed"]
    )
    pipelines = _Pipelines(
        problem,
        tuple(hl.Buffer(array) for array in arrays),
        aligned(expected, len(arrays)),
        hl.Target(settings["target"]),
    )
    return Server(pipelines.compile, expected, Plan(**settings["plan"]))


@dataclass(frozen=True)
class _Pipelines:
    problem: ModuleType
    buffers: tuple[Any, ...]
    result: NDArray[Any]
    target: Any

    def compile(self, config: Mapping[str, Any]) -> Kernel:
        import halide as hl

        function = self.problem.build(config, *self.buffers)
        function.compile_jit(self.target)
        output = hl.Buffer(self.result)
        return _Realised(function, self.buffers, output, self.target, self.result)


@dataclass(frozen=True)
class _Realised:
    function: Any
    buffers: tuple[Any, ...]  # the function itself does not keep their memory
    output: Any
    target: Any
    array: NDArray[Any]

    def prepare(self) -> None:
        poison(self.array)

    def run(self) -> float:
        started = time.perf_counter()
        self.function.realize(self.output, self.target)
        return time.perf_counter() - started

    def result(self) -> NDArray[Any]:
        return self.array
