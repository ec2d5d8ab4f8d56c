"""A problem file: twice the input, or one of several faults."""

import halide as hl
import numpy as np


def inputs(size, rng):
    return (rng.integers(0, 100, size).astype(np.int32),)


def expected(values):
    return 2 * values


def build(config, values):
    x = hl.Var("x")
    double = hl.Func("double")
    far = {"none": 0, "bounds": 1, "crash": 2**28}[config["fault"]]
    double[x] = 2 * values[x + far]
    double.vectorize(x, config["vec"])
    return double
