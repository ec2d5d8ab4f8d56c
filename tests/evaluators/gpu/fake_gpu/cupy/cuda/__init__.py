import os

import numpy as np

from cupy.cuda import nvrtc, runtime

__all__ = ["nvrtc", "runtime"]


class CUDADriverError(RuntimeError):
    pass


class State:
    """What there is of the device: milliseconds, whether the cache is empty, whether it is lost, the current stream."""

    clock, cold, lost, stream, joules = 0.0, False, False, None, 0.0


STATE = State()


def check(stream):
    assert isinstance(stream, Stream)
    if STATE.lost:
        raise runtime.CUDARuntimeError("cudaErrorIllegalAddress: an illegal memory access")


class Memory:
    def __init__(self, size):
        self.bytes = np.empty(size, np.uint8)


class MemoryPointer:
    def __init__(self, mem, offset=0):
        self.mem, self.offset = mem, offset

    def __add__(self, offset):
        return MemoryPointer(self.mem, self.offset + offset)

    def memset_async(self, value, size, stream):
        check(stream)
        self.mem.bytes[self.offset :][:size] = value
        STATE.clock += 1000.0
        STATE.cold |= size >= 2 * Device(0).attributes["L2CacheSize"]


def alloc(size):
    return MemoryPointer(Memory(size))


class Device:
    compute_capability = os.environ.get("FAKE_CAPABILITY", "90")
    pci_bus_id = "0000:01:00.0"

    def __init__(self, number):
        assert number == 0
        self.attributes = {"L2CacheSize": 4096}

    def use(self):
        pass


class Stream:
    def __init__(self, non_blocking):
        assert non_blocking

    def __enter__(self):
        STATE.stream = self

    def __exit__(self, *_):
        STATE.stream = None

    def synchronize(self):
        check(self)


class Event:
    def record(self, stream):
        assert stream is STATE.stream
        self.at = STATE.clock

    def synchronize(self):
        check(Stream(True))


def get_elapsed_time(begin, end):
    return end.at - begin.at
