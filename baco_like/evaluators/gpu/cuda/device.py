"""A CUDA device as the evaluator uses it: a stream, two events, a buffer that empties the cache, and its energy.

The device is reached through a module that is CuPy, or has the same functions.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco_like.evaluators.gpu.cuda.nvrtc import Binary
from baco_like.evaluators.kernels.arguments import DEVICE_GUARDS
from baco_like.exceptions import EvaluatorError

EXIT_CONTEXT_LOST = 70
"""Exit code of a worker whose CUDA context is no longer usable."""


class Device:
    """An opened device.

    Args:
        cupy: The module.
        number: Number of the device.
        flush: Whether `time` empties the second-level cache before it launches.

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
        self._cache_bytes = 2 * device.attributes["L2CacheSize"] if flush else 0
        self._cache = cupy.cuda.alloc(self._cache_bytes) if self._cache_bytes else None
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
                self._cache.memset_async(0, self._cache_bytes, self._stream)
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
