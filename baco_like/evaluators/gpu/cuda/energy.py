"""Energy and power of a GPU, read by NVML."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from baco_like.evaluators.gpu.cuda.device import Device
from baco_like.exceptions import EvaluatorError


@dataclass(frozen=True)
class Reading:
    """One measurement of energy.

    Attributes:
        energy: Joules of one run.
        power: Mean power in watts.
    """

    energy: float
    power: float


@dataclass(frozen=True)
class Meter:
    """Reads a GPU's energy counter, or its power if it has no counter.

    Drivers update counter and power 10 to 50 times a second. A measurement therefore takes half a second or more, and
    many runs.

    Attributes:
        nvml: The module `pynvml`.
        handle: NVML's handle of the device.
    """

    nvml: Any
    handle: Any

    @classmethod
    def open(cls, device: Device) -> Meter:
        """Return the meter of a device.

        Raises:
            EvaluatorError: NVML does not know the device or cannot read its power.
        """
        import pynvml

        bus_id = device.cupy.cuda.Device(device.number).pci_bus_id
        try:
            pynvml.nvmlInit()
            meter = cls(pynvml, pynvml.nvmlDeviceGetHandleByPciBusId(bus_id))
            meter.power()
        except pynvml.NVMLError as error:
            raise EvaluatorError(f"NVML cannot read the power of {bus_id}: {error}") from None
        return meter

    def power(self) -> float:
        """Return the present power in watts."""
        return float(self.nvml.nvmlDeviceGetPowerUsage(self.handle)) * 1e-3

    def counter(self) -> float | None:
        """Return the joules since the driver was loaded, or None if the device does not count them."""
        try:
            return float(self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.handle)) * 1e-3
        except self.nvml.NVMLError:
            return None

    def read(self, run: Callable[[], None], batch: int, seconds: float) -> Reading:
        """Measure the energy of runs.

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
        return Reading(joules / runs, joules / elapsed)
