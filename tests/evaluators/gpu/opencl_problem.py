"""A problem file: twice the input, or one of several faults."""

import numpy as np

KERNEL = "twice"
SOURCE = """
#if !IS_DEFINED
#error "a macro that is true is 1"
#endif
__kernel void twice(__global const int *values, __global int *result)
{
    const int i = get_global_id(0);
#if fault == 1
    no_such_function(i);
#elif fault == 2
    __local int much[1 << 20];
    much[get_local_id(0)] = values[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    result[i] = 2 * much[get_local_id(0)];
#elif fault == 3
    result[i] = 3 * values[i];
#elif fault == 4
    result[i + (1 << 28)] = 2 * values[i];
#elif fault == 5
    volatile int again = values[i];
    while (again) { }
    result[i] = 2 * values[i];
#else
    result[i] = 2 * values[i];
#endif
}
"""


def inputs(size, rng):
    return (rng.integers(1, 100, size).astype(np.int32),)


def expected(values):
    return 2 * values


def macros(size):
    return {"IS_DEFINED": True}


def launch(config, size):
    return (size,), (config["group"],)
