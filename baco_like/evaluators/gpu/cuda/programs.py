"""What runs in the worker of the cupy evaluator: kernels are compiled by NVRTC, launched and timed by events."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco_like.evaluators._processes.worker_main import Report
from baco_like.evaluators.command.template import text_of
from baco_like.evaluators.gpu.cuda.device import Device
from baco_like.evaluators.gpu.cuda.energy import Meter, Reading
from baco_like.evaluators.gpu.cuda.nvrtc import Compiler
from baco_like.evaluators.kernels.problems import load
from baco_like.evaluators.kernels.serving import Kernel, Plan, Server

_BATCH = 0.01
"""Seconds of launches without pause between two looks at the meter."""

_SHARED = 48 * 1024
"""Bytes of dynamic shared memory above which a kernel has to ask for it."""


def serve(settings: Mapping[str, Any]) -> Callable[[Mapping[str, Any], Report], Any]:
    """Return the handler of requests: those of `baco_like.evaluators.kernels.serving.Server`, and ``meter``.

    Raises:
        EvaluatorError: There is no such device, or NVRTC does not compile for it.
    """
    import cupy
    from cupy.cuda import nvrtc

    problem = load(settings["problem"])
    device = Device.opened(cupy, settings["device"], settings["flush"])
    compiler = Compiler(nvrtc, device.architecture, tuple(settings["options"]))
    compiler.check()
    meter = Meter.of(device) if settings["energy"] else None
    arrays = problem.inputs(settings["size"], np.random.default_rng(settings["input_seed"]))
    programs = Programs(
        problem=problem,
        size=settings["size"],
        compiler=compiler,
        device=device,
        warmup=settings["warmup"],
        inputs=arrays,
        expected=problem.expected(*arrays),
    )
    return Handler(programs, Plan(**settings["plan"]), meter)


class Handler:
    """Answers requests.

    Args:
        programs: Makes the kernels.
        plan: The limits.
        meter: Tells the energy, or None where it is not asked for.
    """

    def __init__(self, programs: Programs, plan: Plan, meter: Meter | None) -> None:
        self._programs, self._meter = programs, meter
        self._server = Server(programs.compile, programs.expected, plan)

    def __call__(self, request: Mapping[str, Any], report: Report) -> Any:
        """Answer a request, or end the process where the device is lost: this configuration is to blame, not the next.

        Args:
            request: With ``meter`` and ``count``: what is known of the kernel that ran last, after so many
                measurements of energy, each of so many seconds. Any other is for the `Server`.
            report: Gets the stage ``energy``.

        Returns:
            For ``meter`` the kernel's ``metrics`` and lists of ``energy`` (joules a run) and ``power`` (watts).
        """
        try:
            if "meter" in request:
                return self._metered(request, report)
            return self._server(request, report)
        except Exception as error:
            self._programs.device.leave_if_lost(error)
            raise

    def _metered(self, request: Mapping[str, Any], report: Report) -> dict[str, Any]:
        kernel, seconds = self._programs.last, request["meter"]
        if kernel is None:
            raise LookupError("no kernel has run")
        readings = []
        if self._meter is not None:
            report.stage("energy", (seconds + self._server.plan.timeout) * request["count"])
            readings = [kernel.metered(self._meter, seconds) for _ in range(request["count"])]
        return {
            "metrics": kernel.metrics(),
            "energy": [one.energy for one in readings],
            "power": [one.power for one in readings],
        }


@dataclass
class Programs:
    """Makes kernels; what they read is copied anew for each, because another may have written where it should not.

    Attributes:
        problem: The module with the source and what it wants.
        size: The problem's size.
        compiler: Compiles.
        device: Runs.
        warmup: Runs of each kernel before the first that is timed, at least 1.
        inputs: What kernels get.
        expected: What they have to write.
        last: The kernel that ran last.
    """

    problem: ModuleType
    size: int
    compiler: Compiler
    device: Device
    warmup: int
    inputs: tuple[NDArray[Any], ...]
    expected: NDArray[Any]
    last: Launched | None = field(default=None, init=False)
    _buffers: _Buffers | None = field(default=None, init=False)

    def compile(self, config: Mapping[str, Any]) -> Kernel:
        """Compile a configuration and load it.

        Raises:
            CompileError: It is not compiled.
        """
        problem, device = self.problem, self.device
        if self._buffers is None:
            self._buffers = _Buffers.of(self)
        macros = {**config, **problem.macros(self.size)}
        name = problem.KERNEL.format(**{key: text_of(value) for key, value in macros.items()})
        constants = {symbol: self.inputs[i] for symbol, i in self._buffers.constants.items()}
        binary = self.compiler.compile(problem.SOURCE, name, macros)
        function, arrays = device.load(binary, constants)
        grid, block = problem.launch(config, self.size)
        launches = _optional(problem, "launches", [()], config, self.size)
        shared = _optional(problem, "shared_memory", 0, config, self.size)
        if shared > _SHARED:
            function.max_dynamic_shared_size_bytes = shared
        plan = _Launches(tuple(grid), tuple(block), shared, _scalars(launches))
        filled = [(arrays[symbol], values) for symbol, values in constants.items()]
        return Launched(self, function, filled, self._buffers, plan)


def _optional(problem: ModuleType, name: str, default: Any, *arguments: Any) -> Any:
    """Return what a function returns that a problem may leave out."""
    function = getattr(problem, name, None)
    return default if function is None else function(*arguments)


def _scalars(launches: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the arguments with a width that kernels can know: whole numbers are ``int``, others ``float``."""
    return [
        tuple(np.int32(v) if isinstance(v, int) else np.float32(v) for v in one) for one in launches
    ]


@dataclass(frozen=True)
class _Buffers:
    """Arrays on the device: the kernel's arguments, in order, and which inputs are ``__constant__`` instead."""

    inputs: list[tuple[Any, NDArray[Any]]]
    written: list[Any]  # the output, and what else is written
    constants: Mapping[str, int]

    @classmethod
    def of(cls, programs: Programs) -> _Buffers:
        problem, device = programs.problem, programs.device
        constants: Mapping[str, int] = getattr(problem, "CONSTANTS", {})
        taken = set(constants.values())
        inputs = [a for i, a in enumerate(programs.inputs) if i not in taken]
        written = [programs.expected, *_optional(problem, "scratch", (), programs.size)]
        return cls(
            [(device.empty(a), a) for a in inputs], [device.empty(a) for a in written], constants
        )


@dataclass(frozen=True)
class _Launches:
    """One run of a kernel: the grid, the block, bytes of dynamic shared memory, and each launch's further arguments."""

    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int
    scalars: list[tuple[Any, ...]]


class Launched:
    """A kernel that is loaded."""

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
        self._cold = programs.warmup - 1  # the first launch that is asked for is the last warm-up
        self._seconds = 0.0
        self._host = np.empty_like(programs.expected)

    def prepare(self) -> None:
        """Put the inputs in their places."""
        self._device.fill([*self._buffers.inputs, *self._constants], self._buffers.written)

    def run(self) -> float:
        """Run it once, the first time after the further warm-ups, and return the device's seconds."""
        self._programs.last = self
        while self._cold > 0:
            self._cold -= 1
            self._device.timed(self._launch)
        self._seconds = self._device.timed(self._launch)
        return self._seconds

    def result(self) -> NDArray[Any]:
        """Return what the last run has written."""
        self._device.fetch(self._buffers.written[0], self._host)
        return self._host

    def metrics(self) -> dict[str, float]:
        """Return registers of a thread, bytes of local memory of it, and shared bytes of a block."""
        function = self._function
        return {
            "registers": function.num_regs,
            "local_bytes": function.local_size_bytes,
            "shared_bytes": function.shared_size_bytes + self._launches.shared,
        }

    def metered(self, meter: Meter, seconds: float) -> Reading:
        """Return the energy of one run and the power meanwhile, from runs without pause for so many seconds."""
        batch = max(1, math.ceil(_BATCH / max(self._seconds, 1e-6)))
        return meter.read(lambda: self._device.run(self._launch, batch), batch, seconds)

    def _launch(self) -> None:
        arrays = [array for array, _ in self._buffers.inputs] + self._buffers.written
        plan = self._launches
        for scalars in plan.scalars:
            self._function(plan.grid, plan.block, (*arrays, *scalars), shared_mem=plan.shared)
