"""NVML of the GPU that is not there: 200 W; half a joule in a look at the counter, or no counter."""

import os

from cupy.cuda import STATE


class NVMLError(Exception):
    pass


def nvmlInit():
    pass


def nvmlDeviceGetHandleByPciBusId(place):
    assert place == "0000:01:00.0"
    return place


def nvmlDeviceGetPowerUsage(handle):
    return 200_000


def nvmlDeviceGetTotalEnergyConsumption(handle):
    if os.environ.get("FAKE_COUNTER") == "none":
        raise NVMLError("Not Supported")
    STATE.joules += 0.5
    return STATE.joules * 1000
