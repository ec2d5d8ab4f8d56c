"""The worker of the Halide evaluator: builds pipelines, compiles them just in time and runs them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import override

from baco_like.evaluators.kernels.arguments import Argument, Arguments, HostBlock
from baco_like.evaluators.kernels.problems import draw_three, load_problem
from baco_like.evaluators.kernels.timing import (
    CacheFlush,
    CompiledKernel,
    KernelLimits,
    KernelServer,
    host_step,
)
from baco_like.exceptions import EvaluatorError


def serve(settings: Mapping[str, Any]) -> KernelServer:
    """Return the handler of requests."""
    import halide as hl

    path, needed = settings["problem"]["path"], ("inputs", "expected", "build")
    problem = load_problem(path, settings["problem"]["constants"], needed)
    draws = draw_three(problem, settings["problem"])
    _require_buffers(draws)
    arguments = Arguments(draws, HostBlock, settings["restore"])
    flush = CacheFlush() if settings["flush"] else None
    target = hl.Target(settings["target"])

    def compile(config: Mapping[str, Any]) -> CompiledKernel:
        buffers: dict[str, list[Any]] = {"in": [], "out": []}
        for number, block in enumerate(arguments.blocks):
            like = arguments[number].like
            array = block.array[: like.nbytes].view(like.dtype).reshape(like.shape)
            buffers["in" if arguments[number].expected is None else "out"].append(hl.Buffer(array))
        function = problem.build(config, *buffers["in"])
        function.compile_jit(target)
        return _CompiledPipeline(function, arguments, buffers, target, flush)

    return KernelServer(compile, KernelLimits(**settings["limits"]))


def _require_buffers(draws: Sequence[Sequence[Argument]]) -> None:
    """Check that a pipeline can have the arguments.

    Raises:
        EvaluatorError: An argument is a scalar, or read and written, or its shape changes with the seed, or its type
            has no buffer.
    """
    import halide as hl

    for argument, *others in zip(*draws, strict=True):
        for other in others:
            if argument.like.shape != other.like.shape:
                raise EvaluatorError(
                    f"{argument.name} has the shape {argument.like.shape}, and {other.like.shape} for another seed: a "
                    "Halide pipeline has buffers of one shape"
                )
        if argument.role == "scalar" or (argument.expected and argument.start is not None):
            raise EvaluatorError(
                f"{argument.name}: a Halide pipeline has inputs and outputs only, without a start value"
            )
        try:
            hl.Buffer(argument.like.copy())
        except Exception as error:
            raise EvaluatorError(
                f"{argument.name}: Halide has no buffers of {argument.like.dtype} ({error})"
            ) from None


class _CompiledPipeline(CompiledKernel):
    # Halide numbers its names anew in every build, so equal pipelines have different texts; they also round constants.
    # Little is lost: in two runs of halide_blur, 6 of 149 pipelines were equal, and all runs took 1 % of all builds.
    identity = None

    def __init__(
        self,
        function: Any,
        arguments: Arguments,
        buffers: Mapping[str, list[Any]],
        target: Any,
        flush: CacheFlush | None,
    ) -> None:
        self.arguments = arguments
        # The inputs are held here because the function does not keep their memory alive.
        self._function, self._buffers, self._target = function, buffers, target
        self._flush, self.step = flush, host_step()

    @override
    def time(self, launches: int, limit: float) -> float:
        if self._flush is not None:
            self._flush()
        outputs = self._buffers["out"]
        output = outputs[0] if len(outputs) == 1 else outputs
        started = time.perf_counter()
        self._function.realize(output, self._target)
        return time.perf_counter() - started
