"""A fake GPU: the part of CuPy that the evaluator uses, with a simulated clock. It knows `cuda_problem`."""

import contextlib
import json
import os
import time
from pathlib import Path

import numpy as np

from cupy import cuda
from cupy.cuda import STATE, CUDADriverError, check


class ndarray:
    def __init__(self, shape, dtype, memptr):
        self.shape, self.dtype, self.data = shape, np.dtype(dtype), memptr
        self.nbytes = int(np.prod(shape)) * self.dtype.itemsize

    @property
    def values(self):
        start = self.data.offset
        content = self.data.mem.bytes[start : start + self.nbytes]
        return content.view(self.dtype).reshape(self.shape)

    def set(self, host, stream):
        check(stream)
        self.values[...] = host

    def get(self, stream, out):
        check(stream)
        out[...] = self.values


class RawModule:
    def __init__(self, path):
        self.path = path

    def loaded(self):
        if self.path not in MEMO:
            MEMO[self.path] = json.loads(Path(self.path).read_text()), cuda.alloc(4)
        return MEMO[self.path]

    def get_function(self, name):
        told, factor = self.loaded()
        assert name == told["symbol"]
        return Kernel(told, factor)

    def get_global(self, name):
        assert name == "factor"
        return self.loaded()[1]


MEMO = {}


def clear_memo():
    MEMO.clear()


class Kernel:
    num_regs, local_size_bytes, shared_size_bytes = 40, 8, 1024
    max_dynamic_shared_size_bytes = 48 * 1024

    def __init__(self, told, factor):
        assert len(MEMO) == 1, "modules are not let go"
        self.factor, self.fault, self.launches = factor, int(told["macros"]["fault"]), 0

    def __call__(self, grid, block, args, *, shared_mem):
        assert STATE.stream is not None, "launched on the default stream"
        check(STATE.stream)
        *arrays, launch, gain = args
        values, result, scratch = (array.values.view(np.int32) for array in arrays)
        assert (type(launch), type(gain)) == (np.int32, np.float32)
        if self.fault == 2 or shared_mem > self.max_dynamic_shared_size_bytes:
            raise CUDADriverError("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: too many resources")
        if self.fault == 4:
            STATE.lost = True  # reported by the next call
        if self.fault == 5 and self.launches >= 2:
            time.sleep(60)
        if self.launches >= FORGED_AT:
            forge(self.fault)
        assert set(scratch.view(np.uint8)) in ({0xFF}, {0x7A}, {0xFA})
        assert grid[0] * block[0] == values.size
        factor = ndarray((1,), np.int32, self.factor).values[0]
        result[...] = values * factor * launch * int(gain) + (self.fault == 3)
        if launch:  # the last launch of a run: the next run must find it filled again
            scratch[...] = 1
        self.launches += 1
        STATE.clock += 0.5 + 0.25 * STATE.cold
        STATE.cold = False


FORGED_AT = 8
"""Launches before a kernel forges: the measurement of its time has at most eight, those of its energy follow."""

FORGED = {
    6: {"answer": 3},
    7: {"answer": {"metrics": {"registers": "x"}, "energy": [1.0], "power": [1.0]}},
    8: {"answer": {"metrics": {}, "energy": [1e400], "power": [1.0]}},
    9: {"answer": {"metrics": [], "power": []}},
    10: {"stage": "energy", "limit": "long"},
}
"""What hostile kernels write as the replies of their worker, by fault."""


def forge(fault):
    """Write a message into every descriptor; a kernel does not know which one has the replies, nor the number."""
    for number in range(20 if fault in FORGED else 0):
        line = json.dumps({"number": number, "at": time.perf_counter(), **FORGED[fault]})
        for descriptor in range(3, 256):
            with contextlib.suppress(OSError):
                os.write(descriptor, line.encode() + b"\n")
