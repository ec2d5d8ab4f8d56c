"""Energy and power of a GPU by NVML."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from baco_like.evaluators.gpu.cuda.device import Device
from baco_like.exceptions import EvaluatorError


@dataclass(frozen=True)
class Reading:
    """One measurement.

    Attributes:
        energy: Joules of one run.
        power: Watts, the mean.
    """

    energy: float
    power: float


@dataclass(frozen=True)
class Meter:
    """Reads a GPU's counter of energy, or its power where it has no counter.

    Counter and power are renewed by the driver some ten or fifty times a second, so that a measurement takes half a
    second or more, and many runs.

    Attributes:
        nvml: The module `pynvml`.
        handle: NVML's, of the device.
    """

    nvml: Any
    handle: Any

    @classmethod
    def of(cls, device: Device) -> Meter:
        """Return the meter of a device.

        Raises:
            EvaluatorError: NVML does not know it, or tells neither energy nor power.
        """
        import pynvml

        place = device.cupy.cuda.Device(device.number).pci_bus_id
        try:
            pynvml.nvmlInit()
            meter = cls(pynvml, pynvml.nvmlDeviceGetHandleByPciBusId(place))
            meter.power()
        except pynvml.NVMLError as error:
            raise EvaluatorError(f"NVML cannot tell the power of {place}: {error}") from None
        return meter

    def power(self) -> float:
        """Return the present power in watts."""
        return float(self.nvml.nvmlDeviceGetPowerUsage(self.handle)) * 1e-3

    def counter(self) -> float | None:
        """Return the joules so far, or None where the device does not count them."""
        try:
            return float(self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.handle)) * 1e-3
        except self.nvml.NVMLError:
            return None

    def read(self, run: Callable[[], None], batch: int, seconds: float) -> Reading:
        """Measure while something runs.

        Args:
            run: Runs it ``batch`` times to the end; called until the time is over, at least once.
            batch: How many runs one call is.
            seconds: How long.
        """
        run()  # the clock and the power of an idle device rise first
        first, started = self.counter(), time.perf_counter()
        powers, runs = [self.power()], 0
        while runs == 0 or time.perf_counter() - started < seconds:
            run()
            runs += batch
            powers.append(self.power())
        elapsed, last = time.perf_counter() - started, self.counter()
        mean = sum(powers) / len(powers)
        joules = mean * elapsed if first is None or last is None else last - first
        return Reading(joules / runs, joules / elapsed)
