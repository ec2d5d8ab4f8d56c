"""A problem file with every optional name: twice the input, or one of several faults."""

import numpy as np

KERNEL = "twice<{group}>"
CONSTANTS = {"factor": 1}
SOURCE = """
__constant__ int factor[1];

template <int GROUP> __global__ void twice(const int *values, int *result, int *scratch, int launch, float gain)
{
    extern __shared__ int held[];
    const int i = blockIdx.x * GROUP + threadIdx.x;
#if fault == 1
    no_such_function(i);
#elif fault == 4
    scratch = nullptr;
    scratch[i] = 0;
#elif fault == 5
    while (launch > 0 && clock64()) { }
#endif
    held[threadIdx.x] = values[i];
    result[i] = held[threadIdx.x] * factor[0] * launch * (int)gain + (fault == 3);
}
"""


def inputs(size, rng):
    return rng.integers(1, 100, size).astype(np.int32), np.full(1, 2, np.int32)


def expected(values, factor):
    return values * factor


def macros(size):
    return {"SIZE": size}


def launch(config, size):
    return (size // config["group"],), (config["group"],)


def scratch(size):
    return (np.empty(size, np.int32),)


def launches(config, size):
    return [(0, 1.0), (1, 1.0)]


def shared_memory(config, size):
    return config["shared"]
