"""The worker of the CUDA evaluator: compiles kernels by NVRTC, launches them and times them by events."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco_like.evaluators._processes.worker_main import Report
from baco_like.evaluators.command.template import to_text
from baco_like.evaluators.gpu.cuda.device import Device
from baco_like.evaluators.gpu.cuda.energy import Meter, Reading
from baco_like.evaluators.gpu.cuda.nvrtc import Compiler
from baco_like.evaluators.kernels.problems import load_problem
from baco_like.evaluators.kernels.timing import CompiledKernel, KernelLimits, KernelServer

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

    problem = load_problem(settings["problem"], settings["constants"])
    device = Device.open(cupy, settings["device"], settings["flush"])
    compiler = Compiler(nvrtc, device.architecture, tuple(settings["options"]))
    compiler.check()
    meter = Meter.open(device) if settings["energy"] else None
    inputs = problem.inputs(settings["size"], np.random.default_rng(settings["input_seed"]))
    programs = Programs(
        problem=problem,
        size=settings["size"],
        compiler=compiler,
        device=device,
        warmup=settings["warmup"],
        inputs=inputs,
        expected=problem.expected(*inputs),
    )
    return Handler(programs, KernelLimits(**settings["limits"]), meter)


class Handler:
    """Answers requests.

    Args:
        programs: Compiles the kernels.
        limits: Limits of the stages.
        meter: Reads the energy, or None.
    """

    def __init__(self, programs: Programs, limits: KernelLimits, meter: Meter | None) -> None:
        self._programs, self._meter = programs, meter
        self._server = KernelServer(programs.compile, programs.expected, limits)

    def __call__(self, request: Mapping[str, Any], report: Report) -> Any:
        """Answer a request.

        After an error that leaves the context unusable the process ends, so that this configuration fails and not
        the next one.

        Args:
            request: ``meter`` (seconds of one measurement of energy) and ``count`` (their number) to get the metrics
                of the kernel that ran last. Other requests are answered by `KernelServer`.
            report: Receives the stage ``energy``.

        Returns:
            For ``meter`` the kernel's ``metrics`` and lists of ``energy`` (joules of a run) and ``power`` (watts).
        """
        try:
            if "meter" in request:
                return self._read_metrics(request, report)
            return self._server(request, report)
        except Exception as error:
            self._programs.device.exit_if_lost(error)
            raise

    def _read_metrics(self, request: Mapping[str, Any], report: Report) -> dict[str, Any]:
        kernel, seconds = self._programs.last, request["meter"]
        if kernel is None:
            raise LookupError("no kernel has run")
        readings = []
        if self._meter is not None:
            report.stage("energy", (seconds + self._server.limits.timeout) * request["count"])
            readings = [kernel.read_energy(self._meter, seconds) for _ in range(request["count"])]
        return {
            "metrics": kernel.metrics(),
            "energy": [reading.energy for reading in readings],
            "power": [reading.power for reading in readings],
        }


@dataclass
class Programs:
    """Compiles kernels.

    The inputs are copied again for each kernel, because an earlier one may have written to the wrong place.

    Attributes:
        problem: The problem file.
        size: Size of the problem.
        compiler: Compiles the source.
        device: Runs the kernels.
        warmup: Runs of each kernel before the first timed one, at least 1.
        inputs: Inputs of the kernels.
        expected: The correct result.
        last: The kernel that ran last.
    """

    problem: ModuleType
    size: int
    compiler: Compiler
    device: Device
    warmup: int
    inputs: tuple[NDArray[Any], ...]
    expected: NDArray[Any]
    last: CudaKernel | None = field(default=None, init=False)
    _buffers: _Buffers | None = field(default=None, init=False)

    def compile(self, config: Mapping[str, Any]) -> CompiledKernel:
        """Compile a configuration and load it.

        Raises:
            CompileError: NVRTC refuses the kernel.
        """
        problem, device = self.problem, self.device
        if self._buffers is None:
            self._buffers = _Buffers.allocate(self)
        macros = {**config, **problem.macros(self.size)}
        name = problem.KERNEL.format(**{key: to_text(value) for key, value in macros.items()})
        constants = {symbol: self.inputs[i] for symbol, i in self._buffers.constants.items()}
        binary = self.compiler.compile(problem.SOURCE, name, macros)
        function, arrays = device.load(binary, constants)
        grid, block = problem.launch(config, self.size)
        shared = _call_optional(problem, "shared_memory", 0, config, self.size)
        if shared > _STATIC_SHARED_LIMIT:
            function.max_dynamic_shared_size_bytes = shared
        scalars = [
            # Python numbers have no width; kernels take them as int and float.
            tuple(np.int32(v) if isinstance(v, int) else np.float32(v) for v in arguments)
            for arguments in _call_optional(problem, "launches", [()], config, self.size)
        ]
        launches = _Launches(tuple(grid), tuple(block), shared, scalars)
        filled = [(arrays[symbol], values) for symbol, values in constants.items()]
        return CudaKernel(self, function, filled, self._buffers, launches)


def _call_optional(problem: ModuleType, name: str, default: Any, *arguments: Any) -> Any:
    """Call a function of a problem file, or return the default if the file does not define it."""
    function = getattr(problem, name, None)
    return default if function is None else function(*arguments)


@dataclass(frozen=True)
class _Buffers:
    """Arrays on the device, shared by all kernels."""

    inputs: list[
        tuple[Any, NDArray[Any]]
    ]  # without the __constant__ ones; on the device and the host
    written: list[Any]  # the output and the scratch arrays
    constants: Mapping[str, int]  # number of the input of each __constant__ array

    @classmethod
    def allocate(cls, programs: Programs) -> _Buffers:
        problem, device = programs.problem, programs.device
        constants: Mapping[str, int] = getattr(problem, "CONSTANTS", {})
        excluded = set(constants.values())
        inputs = [a for i, a in enumerate(programs.inputs) if i not in excluded]
        written = [programs.expected, *_call_optional(problem, "scratch", (), programs.size)]
        return cls(
            [(device.empty(a), a) for a in inputs], [device.empty(a) for a in written], constants
        )


@dataclass(frozen=True)
class _Launches:
    """The launches of one run: grid, block, bytes of dynamic shared memory, and additional arguments of each launch."""

    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int
    scalars: list[tuple[Any, ...]]


class CudaKernel:
    """A loaded kernel."""

    def __init__(
        self,
        programs: Programs,
        function: Any,
        constants: list[tuple[Any, NDArray[Any]]],
        buffers: _Buffers,
        launches: _Launches,
    ) -> None:
        self._programs, self._device = programs, programs.device
        self._function, self._constants = function, constants
        self._buffers, self._launches = buffers, launches
        # `KernelServer` calls `run` once before it times; that call is the last warm-up.
        self._warmups_left = programs.warmup - 1
        self._seconds = 0.0
        self._host = np.empty_like(programs.expected)

    def prepare(self) -> None:
        """Copy the inputs to the device, and fill the output with values that no kernel writes by chance."""
        self._device.fill([*self._buffers.inputs, *self._constants], self._buffers.written)

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
        self._device.fetch(self._buffers.written[0], self._host)
        return self._host

    def metrics(self) -> dict[str, float]:
        """Return the registers and local bytes of a thread, and the shared bytes of a block."""
        function = self._function
        return {
            "registers": function.num_regs,
            "local_bytes": function.local_size_bytes,
            "shared_bytes": function.shared_size_bytes + self._launches.shared,
        }

    def read_energy(self, meter: Meter, seconds: float) -> Reading:
        """Return the energy of one run and the mean power, from runs without pause for the given seconds."""
        batch = max(1, math.ceil(_BATCH_SECONDS / max(self._seconds, 1e-6)))
        return meter.read(lambda: self._device.run(self._launch, batch), batch, seconds)

    def _launch(self) -> None:
        arrays = [array for array, _ in self._buffers.inputs] + self._buffers.written
        launches = self._launches
        for scalars in launches.scalars:
            self._function(
                launches.grid, launches.block, (*arrays, *scalars), shared_mem=launches.shared
            )
