"""The worker of CUDA kernels: compiled by NVRTC (this needs no GPU), launched, and timed by events.

The device is reached through a module that is CuPy, or has the same functions.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from baco_like.evaluators._processes.worker_main import Report
from baco_like.evaluators.command.template import to_text
from baco_like.evaluators.kernels.arguments import DEVICE_GUARDS, Argument, Arguments
from baco_like.evaluators.kernels.problems import inspect_source, load_device_problem, macro_texts
from baco_like.evaluators.kernels.timing import (
    ROTATE,
    CompiledKernel,
    KernelLimits,
    KernelServer,
    hash_parts,
)
from baco_like.exceptions import EvaluatorError

_FILE = "kernel.cu"


class CompileError(Exception):
    """NVRTC refuses a kernel; the message is its log."""


@dataclass(frozen=True)
class Binary:
    """A kernel compiled for one architecture.

    Attributes:
        code: The cubin.
        symbol: The kernel's name in the cubin; the name of a template instance is mangled.
    """

    code: bytes
    symbol: str


@dataclass(frozen=True)
class Compiler:
    """Compiles to machine code and not to PTX, so that kernels too large for the architecture fail here.

    Attributes:
        nvrtc: `cupy.cuda.nvrtc`, or an object with the same functions.
        architecture: Such as ``sm_90``; ignored if the options name an architecture.
        options: Additional options of NVRTC.
    """

    nvrtc: Any
    architecture: str
    options: tuple[str, ...] = ()

    def check(self) -> None:
        """Compile an empty kernel.

        Raises:
            EvaluatorError: NVRTC does not know the architecture or an option.
        """
        try:
            self.compile('extern "C" __global__ void nothing() {}', "nothing", {})
        except CompileError as error:
            version = ".".join(map(str, self.nvrtc.getVersion()))
            raise EvaluatorError(
                f"NVRTC {version} with {[*self._all_options()]} compiles nothing: {error}"
            ) from None

    def compile(self, source: str, kernel: str, macros: Mapping[str, Any]) -> Binary:
        """Compile a kernel.

        Args:
            source: CUDA C++.
            kernel: The kernel's name, or an instance of a template, such as ``scale<float, 4>``.
            macros: Values of macros by name.

        Raises:
            CompileError: NVRTC refuses the kernel.
        """
        nvrtc = self.nvrtc
        options = (*self._all_options(), *(f"-D{name}={to_text(v)}" for name, v in macros.items()))
        program = nvrtc.createProgram(source, _FILE, (), ())
        try:
            nvrtc.addNameExpression(program, kernel)
            try:
                nvrtc.compileProgram(program, options)
            except nvrtc.NVRTCError as error:
                log = nvrtc.getProgramLog(program).strip("\0\n ")
                raise CompileError(log or str(error)) from None
            return Binary(nvrtc.getCUBIN(program), nvrtc.getLoweredName(program, kernel))
        finally:
            nvrtc.destroyProgram(program)

    def _all_options(self) -> Sequence[str]:
        has_arch = any(o.startswith(("-arch", "--gpu-architecture")) for o in self.options)
        return self.options if has_arch else (f"-arch={self.architecture}", *self.options)


EXIT_CONTEXT_LOST = 70
"""Exit code of a worker whose CUDA context is no longer usable."""


class Device:
    """An opened device.

    Args:
        cupy: The module.
        number: Number of the device.
        flush: Whether `time` empties the second-level cache before it launches.

    Attributes:
        large: Twice the bytes of the second-level cache.

    Raises:
        EvaluatorError: The device or the driver does not exist.
    """

    def __init__(self, cupy: Any, number: int, flush: bool) -> None:
        try:
            count = cupy.cuda.runtime.getDeviceCount()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            raise EvaluatorError(f"there is no CUDA device on this machine ({error})") from None
        if number >= count:
            raise EvaluatorError(f"there is no CUDA device {number}, of {count}")
        self.cupy, self.number = cupy, number
        device = cupy.cuda.Device(number)
        device.use()
        # A buffer twice as large as the second-level cache empties it.
        self.large = 2 * device.attributes["L2CacheSize"]
        self._cache = cupy.cuda.alloc(self.large) if flush and self.large else None
        # It neither waits for the default stream nor blocks it.
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._begin, self._end = cupy.cuda.Event(), cupy.cuda.Event()

    @property
    def architecture(self) -> str:
        """NVRTC's name of the architecture, such as ``sm_90``."""
        return f"sm_{self.cupy.cuda.Device(self.number).compute_capability}"

    def load(
        self, binary: Binary, constants: Mapping[str, NDArray[Any]]
    ) -> tuple[Any, dict[str, Any]]:
        """Load a kernel.

        Args:
            binary: The kernel.
            constants: Arrays with the shape and type of each ``__constant__`` array, by name.

        Returns:
            The kernel, and the ``__constant__`` arrays on the device by name.
        """
        cupy = self.cupy
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(binary.code)
            file.flush()
            module = cupy.RawModule(path=file.name)
            function = module.get_function(binary.symbol)
            arrays = {
                name: cupy.ndarray(like.shape, like.dtype, module.get_global(name))
                for name, like in constants.items()
            }
        cupy.clear_memo()  # CuPy would keep the module in memory after the kernel is dropped
        return function, arrays

    def allocate(self, size: int, number: int) -> DeviceBlock:
        """Return memory for an array of so many bytes."""
        return DeviceBlock(self.cupy, self._stream, size)

    def fill(self, array: Any, host: NDArray[Any]) -> None:
        """Copy values to an array on the device."""
        array.set(np.ascontiguousarray(host), stream=self._stream)
        self._stream.synchronize()

    def time(self, launch: Callable[[], None]) -> float:
        """Return the seconds that the device takes for the launches of ``launch``.

        The host launches while the device still empties the cache, so that the host's own time is not measured.
        """
        with self._stream:
            if self._cache is not None:
                self._cache.memset_async(0, self.large, self._stream)
            self._begin.record(self._stream)
            launch()
            self._end.record(self._stream)
        self._end.synchronize()
        return float(self.cupy.cuda.get_elapsed_time(self._begin, self._end)) * 1e-3

    def run(self, launch: Callable[[], None], count: int) -> None:
        """Call ``launch`` ``count`` times without pause, and wait for the end."""
        with self._stream:
            for _ in range(count):
                launch()
        self._stream.synchronize()

    def exit_if_lost(self, error: Exception) -> None:
        """End the process if the context is lost: after an illegal access every further call fails."""
        try:
            self._stream.synchronize()
        except self.cupy.cuda.runtime.CUDARuntimeError:
            print(f"{type(error).__name__}: {error}", flush=True)
            os._exit(EXIT_CONTEXT_LOST)


class DeviceBlock:
    """Memory of an array on the device, with guards.

    Args:
        cupy: The module.
        stream: The stream of all copies.
        size: Bytes of the array.

    Attributes:
        array: The array as an argument of a kernel.
        guards: Bytes before and after it.
    """

    guards = DEVICE_GUARDS

    def __init__(self, cupy: Any, stream: Any, size: int) -> None:
        self._cupy, self._stream = cupy, stream
        self._memory = cupy.cuda.alloc(size + sum(self.guards))
        self.array = self._part(0, size)

    def write(self, offset: int, content: NDArray[np.uint8]) -> None:
        """Write bytes; offsets begin at the array."""
        self._part(offset, content.size).set(content, stream=self._stream)
        self._stream.synchronize()

    def fill(self, size: int, byte: int) -> None:
        """Fill the first bytes of the array with one byte."""
        (self._memory + self.guards[0]).memset_async(byte, size, self._stream)

    def read(self, offset: int, size: int) -> NDArray[np.uint8]:
        """Return bytes."""
        content = np.empty(size, np.uint8)
        self._part(offset, size).get(stream=self._stream, out=content)
        self._stream.synchronize()
        return content

    def _part(self, offset: int, size: int) -> Any:
        return self._cupy.ndarray((size,), np.uint8, self._memory + self.guards[0] + offset)


class Meter:
    """Reads a GPU's energy counter, or its power if it has no counter.

    Drivers update counter and power 10 to 50 times a second. A measurement therefore takes half a second or more, and
    many runs.

    Args:
        device: The device.

    Raises:
        EvaluatorError: NVML does not know the device or cannot read its power.
    """

    def __init__(self, device: Device) -> None:
        import pynvml

        self._nvml = pynvml
        bus_id = device.cupy.cuda.Device(device.number).pci_bus_id
        try:
            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByPciBusId(bus_id)
            self.power()
        except pynvml.NVMLError as error:
            raise EvaluatorError(f"NVML cannot read the power of {bus_id}: {error}") from None

    def power(self) -> float:
        """Return the present power in watts."""
        return float(self._nvml.nvmlDeviceGetPowerUsage(self._handle)) * 1e-3

    def counter(self) -> float | None:
        """Return the joules since the driver was loaded, or None if the device does not count them."""
        try:
            return float(self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)) * 1e-3
        except self._nvml.NVMLError:
            return None

    def read(self, run: Callable[[], None], batch: int, seconds: float) -> tuple[float, float]:
        """Return the joules of one run, and the mean power in watts.

        Args:
            run: Makes ``batch`` runs and waits for their end; called until the time is over, at least once.
            batch: Number of runs in one call.
            seconds: Duration of the measurement.
        """
        run()  # an idle device first raises its clock and its power
        first, started = self.counter(), time.perf_counter()
        powers, runs = [self.power()], 0
        while runs == 0 or time.perf_counter() - started < seconds:
            run()
            runs += batch
            powers.append(self.power())
        elapsed, last = time.perf_counter() - started, self.counter()
        mean = sum(powers) / len(powers)
        joules = mean * elapsed if first is None or last is None else last - first
        return joules / runs, joules / elapsed


_BATCH_SECONDS = 0.01
"""Duration of the launches without pause between two readings of the meter."""

_STATIC_SHARED_LIMIT = 48 * 1024
"""Bytes of dynamic shared memory above which CUDA requires a kernel attribute."""


_EVENT_STEP = 0.5e-6
"""Resolution of events in seconds, by the documentation of ``cudaEventElapsedTime``."""


def serve(settings: Mapping[str, Any]) -> Callable[[Mapping[str, Any], Report], Any]:
    """Return the handler of requests: those of a `KernelServer`.

    Raises:
        EvaluatorError: The device does not exist, or NVRTC cannot compile for it.
    """
    programs = Programs(settings)
    server = KernelServer(programs.compile, KernelLimits(**settings["limits"]))

    def handle(request: Mapping[str, Any], report: Report) -> Any:
        try:
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

        self.path, self.size = Path(settings["problem"]["path"]), settings["problem"]["size"]
        self.problem, draws = load_device_problem(settings["problem"])
        for number, like in enumerate(self.call_optional("scratch", (), self.size)):
            scratch = Argument(f"scratch {number}", np.asarray(like), None, None, "output")
            for draw in draws:
                draw.append(scratch)
        self.device = Device(cupy, settings["device"], settings["flush"] is True)
        options = tuple(settings["options"])
        compiler = Compiler(nvrtc, self.device.architecture, options)
        compiler.check()
        self._compiler = replace(compiler, options=(*options, f"-I{self.path.parent}"))
        self.meter = Meter(self.device) if settings["energy"] else None
        self.constants: Mapping[str, int] = getattr(self.problem, "CONSTANTS", {})
        rotated = self.device.large if settings["flush"] == ROTATE else 0
        self.arguments = Arguments(draws, self.device.allocate, settings["restore"], rotated)

    def compile(self, config: Mapping[str, Any]) -> CompiledKernel:
        """Compile a configuration and load it.

        Raises:
            CompileError: NVRTC refuses the kernel.
        """
        problem = self.problem
        macros = macro_texts(problem, self.size, config)
        name = problem.KERNEL.format(**macros)
        binary = self._compiler.compile(problem.SOURCE, name, macros)
        likes = {symbol: self.arguments[n].like for symbol, n in self.constants.items()}
        function, symbols = self.device.load(binary, likes)
        kernel = CudaKernel(self, config, function, symbols, binary.code)
        numbers = [n for n in range(len(self.arguments.blocks)) if n not in self.constants.values()]
        text, plain = problem.SOURCE + problem.KERNEL, name.partition("<")[0]
        declared, kernel.notes = inspect_source(self.path, text, plain, config)
        kernel.constant = [numbers[n] for n in declared if n < len(numbers)]
        return kernel

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

    step, is_on_host = _EVENT_STEP, False

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
        self._seconds, self._bytes = 0.0, len(code)

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

    @override
    def build_metrics(self) -> dict[str, float]:
        """Return the bytes of the machine code, and the `metrics`; local bytes are mostly spilled registers."""
        numbers = {f"gpu.{name}": float(number) for name, number in self.metrics().items()}
        return {"size.bytes": float(self._bytes), **numbers}

    @override
    def meter(self, seconds: float) -> tuple[float, float]:
        """Return the energy of one run and the mean power, from runs without pause for the given seconds.

        Both include the energy of setting the outputs, and the inputs that the kernel changes, before each run.
        """
        assert self._programs.meter is not None
        self.arguments.restore()
        self.time(1, 0.0)  # the values of the first draw
        batch = max(1, math.ceil(_BATCH_SECONDS / max(self._seconds, 1e-6)))
        run = partial(self._device.run, self._restore_and_launch, batch)
        return self._programs.meter.read(run, batch, seconds)

    def _restore_and_launch(self) -> None:
        self.arguments.restore()
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
