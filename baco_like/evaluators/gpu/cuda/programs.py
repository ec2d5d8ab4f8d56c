"""The worker of the CUDA evaluator: compiles kernels by NVRTC, launches them and times them by events."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from typing_extensions import override

from baco_like.evaluators._processes.worker_main import Report
from baco_like.evaluators.command.template import to_text
from baco_like.evaluators.gpu.cuda.device import Device, Meter
from baco_like.evaluators.gpu.cuda.nvrtc import Compiler
from baco_like.evaluators.kernels.arguments import Argument, Arguments
from baco_like.evaluators.kernels.problems import draw_twice, load_problem
from baco_like.evaluators.kernels.timing import (
    CompiledKernel,
    KernelLimits,
    KernelServer,
    hash_parts,
)

_BATCH_SECONDS = 0.01
"""Duration of the launches without pause between two readings of the meter."""

_STATIC_SHARED_LIMIT = 48 * 1024
"""Bytes of dynamic shared memory above which CUDA requires a kernel attribute."""


_EVENT_STEP = 0.5e-6
"""Resolution of events in seconds, by the documentation of ``cudaEventElapsedTime``."""


def serve(settings: Mapping[str, Any]) -> Callable[[Mapping[str, Any], Report], Any]:
    """Return the handler of requests: the requests of a `KernelServer`, and ``meter``.

    Raises:
        EvaluatorError: The device does not exist, or NVRTC cannot compile for it.
    """
    programs, limits = Programs(settings), KernelLimits(**settings["limits"])
    server = KernelServer(programs.compile, limits)

    def handle(request: Mapping[str, Any], report: Report) -> Any:
        try:
            if "meter" in request:
                return programs.read_energy(
                    server.find(request["key"]), request, report, limits.timeout
                )
            return server(request, report)
        except Exception as error:
            # After an error that leaves the context unusable the process ends, so that this configuration fails and
            # not the next one.
            programs.device.exit_if_lost(error)
            raise

    return handle


class Programs:
    """Compiles kernels.

    Args:
        settings: The settings of the worker.

    Raises:
        EvaluatorError: The device does not exist, or NVRTC cannot compile for it.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        import cupy
        from cupy.cuda import nvrtc

        self.problem = load_problem(settings["problem"]["path"], settings["problem"]["constants"])
        self.size = settings["problem"]["size"]
        draws = draw_twice(self.problem, settings["problem"])
        for number, like in enumerate(self.call_optional("scratch", (), self.size)):
            scratch = Argument(f"scratch {number}", np.asarray(like), None, None, "output")
            for draw in draws:
                draw.append(scratch)
        self.device = Device(cupy, settings["device"], settings["flush"])
        options = tuple(settings["options"])
        self._compiler = Compiler(nvrtc, self.device.architecture, options)
        self._compiler.check()
        self._meter = Meter(self.device) if settings["energy"] else None
        self.constants: Mapping[str, int] = getattr(self.problem, "CONSTANTS", {})
        self.arguments = Arguments(draws, self.device.allocate, settings["restore"])

    def compile(self, config: Mapping[str, Any]) -> CompiledKernel:
        """Compile a configuration and load it.

        Raises:
            CompileError: NVRTC refuses the kernel.
        """
        problem = self.problem
        macros = {**config, **problem.macros(self.size)}
        name = problem.KERNEL.format(**{key: to_text(value) for key, value in macros.items()})
        binary = self._compiler.compile(problem.SOURCE, name, macros)
        likes = {symbol: self.arguments[n].like for symbol, n in self.constants.items()}
        function, symbols = self.device.load(binary, likes)
        return CudaKernel(self, config, function, symbols, binary.code)

    def read_energy(
        self, kernel: CompiledKernel, request: Mapping[str, Any], report: Report, timeout: float
    ) -> dict[str, Any]:
        """Return the energy of a kernel, which has been measured before.

        Args:
            kernel: The kernel.
            request: ``meter`` (seconds of one measurement) and ``count`` (their number).
            report: Receives the stages ``energy`` and ``check``.
            timeout: Limit of one run in seconds.

        Returns:
            Lists of ``energy`` (joules of a run) and ``power`` (watts); ``problem``, as of a `Measurement`.
        """
        assert isinstance(kernel, CudaKernel)
        assert self._meter is not None
        seconds, count = request["meter"], request["count"]
        report.stage("energy", (seconds + timeout) * count)
        self.arguments.place()
        readings = [kernel.read_energy(self._meter, seconds) for _ in range(count)]
        return {
            "energy": [energy for energy, _ in readings],
            "power": [power for _, power in readings],
            "problem": self.arguments.check(is_first=False).problem,
        }

    def call_optional(self, name: str, default: Any, *arguments: Any) -> Any:
        """Call a function of the problem file, or return the default if the file does not define it."""
        function = getattr(self.problem, name, None)
        return default if function is None else function(*arguments)


class CudaKernel(CompiledKernel):
    """A loaded kernel.

    Args:
        programs: Holds the device and the problem.
        config: The configuration.
        function: The kernel.
        symbols: The ``__constant__`` arrays, by name.
        code: The machine code, from which the kernel was loaded.
    """

    step = _EVENT_STEP

    def __init__(
        self,
        programs: Programs,
        config: Mapping[str, Any],
        function: Any,
        symbols: Mapping[str, Any],
        code: bytes,
    ) -> None:
        self._programs, self._device, self._function = programs, programs.device, function
        self.arguments, self._symbols = programs.arguments, symbols
        self._draw: int | None = None  # of the values in the ``__constant__`` arrays
        grid, block = programs.problem.launch(config, programs.size)
        self._grid, self._block = tuple(grid), tuple(block)
        call_optional, size = programs.call_optional, programs.size
        self._shared = call_optional("shared_memory", 0, config, size)
        if self._shared > _STATIC_SHARED_LIMIT:
            function.max_dynamic_shared_size_bytes = self._shared
        self._scalars = [
            # Python numbers have no width; kernels take them as int and float.
            tuple(np.int32(v) if isinstance(v, int) else np.float32(v) for v in arguments)
            for arguments in call_optional("launches", [()], config, size)
        ]
        self.identity = hash_parts(code, self._grid, self._block, self._shared, self._scalars)
        self._seconds = 0.0

    @override
    def time(self, launches: int, limit: float) -> float:
        """Run the kernel once, and return the device's seconds."""
        if self._draw != self.arguments.draw:
            self._draw = self.arguments.draw
            for symbol, array in self._symbols.items():
                self._device.fill(array, self.arguments[self._programs.constants[symbol]].like)
        self._seconds = self._device.time(self._launch)
        return self._seconds

    @override
    def metrics(self) -> dict[str, float]:
        """Return the registers and local bytes of a thread, and the shared bytes of a block."""
        return {
            "registers": self._function.num_regs,
            "local_bytes": self._function.local_size_bytes,
            "shared_bytes": self._function.shared_size_bytes + self._shared,
        }

    def read_energy(self, meter: Meter, seconds: float) -> tuple[float, float]:
        """Return the energy of one run and the mean power, from runs without pause for the given seconds.

        Both include the energy of setting the outputs, and the inputs that the kernel changes, before each run.
        """
        batch = max(1, math.ceil(_BATCH_SECONDS / max(self._seconds, 1e-6)))
        self.arguments.reset()
        self.time(1, 0.0)  # the values of the first draw
        return meter.read(lambda: self._device.run(self._reset_and_launch, batch), batch, seconds)

    def _reset_and_launch(self) -> None:
        self.arguments.reset()
        self._launch()

    def _launch(self) -> None:
        constants, blocks = self._programs.constants.values(), self.arguments.blocks
        arrays = [
            self.arguments[number].like[()] if block is None else block.array
            for number, block in enumerate(blocks)
            if number not in constants
        ]
        for scalars in self._scalars:
            self._function(self._grid, self._block, (*arrays, *scalars), shared_mem=self._shared)
