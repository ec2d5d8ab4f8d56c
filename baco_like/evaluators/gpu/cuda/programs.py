"""The worker of the CUDA evaluator: compiles kernels by NVRTC, launches them and times them by events."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco_like.evaluators._processes.worker_main import Report
from baco_like.evaluators.command.template import to_text
from baco_like.evaluators.gpu.cuda.device import Device, Meter
from baco_like.evaluators.gpu.cuda.nvrtc import Compiler
from baco_like.evaluators.kernels.problems import open_problem
from baco_like.evaluators.kernels.timing import CompiledKernel, KernelLimits, KernelServer

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
    import cupy
    from cupy.cuda import nvrtc

    problem, inputs, expected = open_problem(**settings["problem"])
    device = Device(cupy, settings["device"], settings["flush"])
    compiler = Compiler(nvrtc, device.architecture, tuple(settings["options"]))
    compiler.check()
    meter = Meter(device) if settings["energy"] else None
    programs = Programs(
        problem=problem,
        size=settings["problem"]["size"],
        compiler=compiler,
        device=device,
        meter=meter,
        warmup=settings["warmup"],
        inputs=inputs,
        expected=expected,
    )
    limits = KernelLimits(**settings["limits"])
    server = KernelServer(programs.compile, expected, limits)

    def handle(request: Mapping[str, Any], report: Report) -> Any:
        try:
            if "meter" in request:
                return programs.read_metrics(request, report, limits.timeout)
            return server(request, report)
        except Exception as error:
            # After an error that leaves the context unusable the process ends, so that this configuration fails and
            # not the next one.
            device.exit_if_lost(error)
            raise

    return handle


@dataclass
class Programs:
    """Compiles kernels.

    The inputs are copied again for each kernel, because an earlier one may have written to the wrong place.

    Attributes:
        problem: The problem file.
        size: Size of the problem.
        compiler: Compiles the source.
        device: Runs the kernels.
        meter: Reads the energy, or None.
        warmup: Runs of each kernel before the first timed one, at least 1.
        inputs: Inputs of the kernels.
        expected: The correct result.
        last: The kernel that ran last.
    """

    problem: ModuleType
    size: int
    compiler: Compiler
    device: Device
    meter: Meter | None
    warmup: int
    inputs: tuple[NDArray[Any], ...]
    expected: NDArray[Any]
    last: CudaKernel | None = field(default=None, init=False)

    @functools.cached_property
    def constants(self) -> Mapping[str, NDArray[Any]]:
        """Inputs that are ``__constant__`` arrays, by the array's name."""
        numbers: Mapping[str, int] = getattr(self.problem, "CONSTANTS", {})
        return {symbol: self.inputs[number] for symbol, number in numbers.items()}

    @functools.cached_property
    def arrays(self) -> tuple[list[_Filled], list[Any]]:
        """Arguments of all kernels: the other inputs; the output and the scratch arrays."""
        excluded = set(getattr(self.problem, "CONSTANTS", {}).values())
        scratch = self._call_optional("scratch", (), self.size)
        empty = self.device.empty
        inputs = [(empty(a), a) for i, a in enumerate(self.inputs) if i not in excluded]
        return inputs, [empty(a) for a in (self.expected, *scratch)]

    def compile(self, config: Mapping[str, Any]) -> CompiledKernel:
        """Compile a configuration and load it.

        Raises:
            CompileError: NVRTC refuses the kernel.
        """
        problem, (inputs, written) = self.problem, self.arrays
        macros = {**config, **problem.macros(self.size)}
        name = problem.KERNEL.format(**{key: to_text(value) for key, value in macros.items()})
        binary = self.compiler.compile(problem.SOURCE, name, macros)
        function, arrays = self.device.load(binary, self.constants)
        grid, block = problem.launch(config, self.size)
        shared = self._call_optional("shared_memory", 0, config, self.size)
        if shared > _STATIC_SHARED_LIMIT:
            function.max_dynamic_shared_size_bytes = shared
        scalars = [
            # Python numbers have no width; kernels take them as int and float.
            tuple(np.int32(v) if isinstance(v, int) else np.float32(v) for v in arguments)
            for arguments in self._call_optional("launches", [()], config, self.size)
        ]
        constants = [(arrays[symbol], values) for symbol, values in self.constants.items()]
        return CudaKernel(
            self,
            function,
            [*inputs, *constants],
            [array for array, _ in inputs] + written,
            written,
            tuple(grid),
            tuple(block),
            shared,
            scalars,
        )

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
        if self.meter is not None:
            report.stage("energy", (seconds + timeout) * request["count"])
            readings = [kernel.read_energy(self.meter, seconds) for _ in range(request["count"])]
        return {
            "metrics": kernel.metrics(),
            "energy": [energy for energy, _ in readings],
            "power": [power for _, power in readings],
        }

    def _call_optional(self, name: str, default: Any, *arguments: Any) -> Any:
        """Call a function of the problem file, or return the default if the file does not define it."""
        function = getattr(self.problem, name, None)
        return default if function is None else function(*arguments)


@dataclass
class CudaKernel:
    """A loaded kernel.

    Attributes:
        programs: Holds the device.
        function: The kernel.
        filled: Inputs and ``__constant__`` arrays, with the values to copy to them.
        arguments: Arrays that every launch gets.
        written: The output, and the scratch arrays.
        grid: Blocks of a launch.
        block: Threads of a block.
        shared: Bytes of dynamic shared memory.
        scalars: Additional arguments of each launch of one run.
    """

    programs: Programs
    function: Any
    filled: list[_Filled]
    arguments: list[Any]
    written: list[Any]
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int
    scalars: list[tuple[Any, ...]]

    def __post_init__(self) -> None:
        self._device = self.programs.device
        # `KernelServer` calls `run` once before it times; that call is the last warm-up.
        self._warmups_left = self.programs.warmup - 1
        self._seconds = 0.0
        self._host = np.empty_like(self.programs.expected)

    def prepare(self) -> None:
        """Copy the inputs to the device, and fill the output with values that no kernel writes by chance."""
        self._device.fill(self.filled, self.written)

    def run(self) -> float:
        """Run the kernel once (the first time after the warm-ups), and return the device's seconds."""
        self.programs.last = self
        while self._warmups_left > 0:
            self._warmups_left -= 1
            self._device.time(self._launch)
        self._seconds = self._device.time(self._launch)
        return self._seconds

    def result(self) -> NDArray[Any]:
        """Return the output of the last run."""
        self._device.fetch(self.written[0], self._host)
        return self._host

    def metrics(self) -> dict[str, float]:
        """Return the registers and local bytes of a thread, and the shared bytes of a block."""
        return {
            "registers": self.function.num_regs,
            "local_bytes": self.function.local_size_bytes,
            "shared_bytes": self.function.shared_size_bytes + self.shared,
        }

    def read_energy(self, meter: Meter, seconds: float) -> tuple[float, float]:
        """Return the energy of one run and the mean power, from runs without pause for the given seconds."""
        batch = max(1, math.ceil(_BATCH_SECONDS / max(self._seconds, 1e-6)))
        return meter.read(lambda: self._device.run(self._launch, batch), batch, seconds)

    def _launch(self) -> None:
        for scalars in self.scalars:
            arguments = (*self.arguments, *scalars)
            self.function(self.grid, self.block, arguments, shared_mem=self.shared)
