"""The worker of the CUDA evaluator: compiles kernels by NVRTC, launches them and times them by events."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco_like.evaluators._processes.worker_main import Report
from baco_like.evaluators.command.template import to_text
from baco_like.evaluators.gpu.cuda.device import Device, Meter
from baco_like.evaluators.gpu.cuda.nvrtc import Compiler
from baco_like.evaluators.kernels.problems import open_problem
from baco_like.evaluators.kernels.timing import (
    CompiledKernel,
    KernelLimits,
    KernelServer,
    hash_parts,
)

_Filled = tuple[Any, NDArray[Any]]
"""An array on the device, and its values."""

_BATCH_SECONDS = 0.01
"""Duration of the launches without pause between two readings of the meter."""

_STATIC_SHARED_LIMIT = 48 * 1024
"""Bytes of dynamic shared memory above which CUDA requires a kernel attribute."""


def serve(settings: Mapping[str, Any]) -> Callable[[Mapping[str, Any], Report], Any]:
    """Return the handler of requests: the requests of a `KernelServer`, and ``meter``.

    Raises:
        EvaluatorError: The device does not exist, or NVRTC cannot compile for it.
    """
    programs, limits = Programs(settings), KernelLimits(**settings["limits"])
    server = KernelServer(programs.compile, programs.expected, limits)

    def handle(request: Mapping[str, Any], report: Report) -> Any:
        try:
            if "meter" in request:
                return programs.read_metrics(request, report, limits.timeout)
            return server(request, report)
        except Exception as error:
            # After an error that leaves the context unusable the process ends, so that this configuration fails and
            # not the next one.
            programs.device.exit_if_lost(error)
            raise

    return handle


class Programs:
    """Compiles kernels.

    The inputs are copied again for each kernel, because an earlier one may have written to the wrong place.

    Args:
        settings: The settings of the worker.

    Raises:
        EvaluatorError: The device does not exist, or NVRTC cannot compile for it.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        import cupy
        from cupy.cuda import nvrtc

        self.problem, self.inputs, self.expected = open_problem(**settings["problem"])
        self.size, self.warmup = settings["problem"]["size"], settings["warmup"]
        self.device = Device(cupy, settings["device"], settings["flush"])
        options = tuple(settings["options"])
        self._compiler = Compiler(nvrtc, self.device.architecture, options)
        self._compiler.check()
        self._meter = Meter(self.device) if settings["energy"] else None
        self.last: CudaKernel | None = None  # the kernel that ran last

    @functools.cached_property
    def constants(self) -> Mapping[str, NDArray[Any]]:
        """Inputs that are ``__constant__`` arrays, by the array's name."""
        numbers: Mapping[str, int] = getattr(self.problem, "CONSTANTS", {})
        return {symbol: self.inputs[number] for symbol, number in numbers.items()}

    @functools.cached_property
    def arrays(self) -> tuple[list[_Filled], list[Any]]:
        """Arguments of all kernels: the other inputs; the output and the scratch arrays."""
        excluded = set(getattr(self.problem, "CONSTANTS", {}).values())
        scratch = self.call_optional("scratch", (), self.size)
        empty = self.device.empty
        inputs = [(empty(a), a) for i, a in enumerate(self.inputs) if i not in excluded]
        return inputs, [empty(a) for a in (self.expected, *scratch)]

    def compile(self, config: Mapping[str, Any]) -> CompiledKernel:
        """Compile a configuration and load it.

        Raises:
            CompileError: NVRTC refuses the kernel.
        """
        problem, arrays = self.problem, self.arrays
        macros = {**config, **problem.macros(self.size)}
        name = problem.KERNEL.format(**{key: to_text(value) for key, value in macros.items()})
        binary = self._compiler.compile(problem.SOURCE, name, macros)
        function, symbols = self.device.load(binary, self.constants)
        constants = [(symbols[symbol], values) for symbol, values in self.constants.items()]
        return CudaKernel(self, config, function, arrays, constants, binary.code)

    def read_metrics(
        self, request: Mapping[str, Any], report: Report, timeout: float
    ) -> dict[str, Any]:
        """Return the metrics of the kernel that ran last.

        Args:
            request: ``meter`` (seconds of one measurement of energy) and ``count`` (their number).
            report: Receives the stage ``energy``.
            timeout: Limit of one run in seconds.

        Returns:
            The kernel's ``metrics``, and lists of ``energy`` (joules of a run) and ``power`` (watts).
        """
        kernel, seconds = self.last, request["meter"]
        if kernel is None:
            raise LookupError("no kernel has run")
        readings = []
        if self._meter is not None:
            report.stage("energy", (seconds + timeout) * request["count"])
            readings = [kernel.read_energy(self._meter, seconds) for _ in range(request["count"])]
        return {
            "metrics": kernel.metrics(),
            "energy": [energy for energy, _ in readings],
            "power": [power for _, power in readings],
        }

    def call_optional(self, name: str, default: Any, *arguments: Any) -> Any:
        """Call a function of the problem file, or return the default if the file does not define it."""
        function = getattr(self.problem, name, None)
        return default if function is None else function(*arguments)


class CudaKernel:
    """A loaded kernel.

    Args:
        programs: Holds the device and the problem.
        config: The configuration.
        function: The kernel.
        arrays: As `Programs.arrays`.
        constants: The ``__constant__`` arrays.
        code: The machine code, from which the kernel was loaded.
    """

    def __init__(
        self,
        programs: Programs,
        config: Mapping[str, Any],
        function: Any,
        arrays: tuple[list[_Filled], list[Any]],
        constants: list[_Filled],
        code: bytes,
    ) -> None:
        self._programs, self._device, self._function = programs, programs.device, function
        inputs, self._written = arrays
        self._filled = inputs + constants
        self._arrays = [array for array, _ in inputs] + self._written
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
        # `KernelServer` calls `run` once before it times; that call is the last warm-up.
        self._warmups_left = programs.warmup - 1
        self._seconds = 0.0
        self._host = np.empty_like(programs.expected)

    def prepare(self) -> None:
        """Copy the inputs to the device, and fill the output with values that no kernel writes by chance."""
        self._device.fill(self._filled, self._written)

    def run(self) -> float:
        """Run the kernel once (the first time after the warm-ups), and return the device's seconds."""
        self._programs.last = self
        while self._warmups_left > 0:
            self._warmups_left -= 1
            self._device.time(self._launch)
        self._seconds = self._device.time(self._launch)
        return self._seconds

    def result(self) -> NDArray[Any]:
        """Return the output of the last run."""
        self._device.fetch(self._written[0], self._host)
        return self._host

    def metrics(self) -> dict[str, float]:
        """Return the registers and local bytes of a thread, and the shared bytes of a block."""
        return {
            "registers": self._function.num_regs,
            "local_bytes": self._function.local_size_bytes,
            "shared_bytes": self._function.shared_size_bytes + self._shared,
        }

    def read_energy(self, meter: Meter, seconds: float) -> tuple[float, float]:
        """Return the energy of one run and the mean power, from runs without pause for the given seconds."""
        batch = max(1, math.ceil(_BATCH_SECONDS / max(self._seconds, 1e-6)))
        return meter.read(lambda: self._device.run(self._launch, batch), batch, seconds)

    def _launch(self) -> None:
        for scalars in self._scalars:
            arguments = (*self._arrays, *scalars)
            self._function(self._grid, self._block, arguments, shared_mem=self._shared)
