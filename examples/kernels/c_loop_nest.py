"""Matrix multiplication in C with tiled, ordered, unrolled and shared loops, for the evaluator `kind = "c"`.

The product C = A B of square float32 matrices has three loops, i, j and k. Each is split into an outer one that steps
from tile to tile (io, jo, ko) and an inner one within the tile (ii, ji, ki), and the six have any order. Parameters
that a space leaves out keep the value of the plain nest i, j, k at -O2.
"""

import re
from dataclasses import dataclass

import numpy as np

from baco_like import Infeasible
from baco_like.evaluators import kernels

LOOPS = ("io", "jo", "ko", "ii", "ji", "ki")
PRAGMAS = ("none", "ivdep", "omp simd")

PROLOGUE = """\
#if defined(__clang__)
#define BACO_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#define BACO_UNROLL(n) BACO_PRAGMA(clang loop unroll_count(n))
#else
#define BACO_IVDEP _Pragma("GCC ivdep")
#define BACO_UNROLL(n) BACO_PRAGMA(GCC unroll n)
#endif
#define BACO_PRAGMA(text) _Pragma(#text)
"""


@dataclass(frozen=True)
class Schedule:
    """One way to run the loops.

    Attributes:
        order: The six loops, outermost first.
        ti: Tile of i; tiles divide the matrix size.
        tj: Tile of j.
        tk: Tile of k.
        unroll: Unroll factor of the innermost loop; with 1 the compiler decides.
        pragma: Pragma of the innermost loop: ``none``, ``ivdep`` (iterations are independent) or ``omp simd``. gcc
            refuses ``omp simd`` together with ``unroll``.
        opt: Optimisation level, as a flag: ``-O2``.
        march: Instruction set: ``generic`` (the compiler's default), ``native``, or a name for ``-march=``.
        fast_math: Whether sums may be reordered (``-ffast-math``).
        threads: Number of OpenMP threads that share the outermost loop.
    """

    order: tuple[str, ...] = LOOPS
    ti: int = 1
    tj: int = 1
    tk: int = 1
    unroll: int = 1
    pragma: str = "none"
    opt: str = "-O2"
    march: str = "generic"
    fast_math: bool = False
    threads: int = 1


def domains():
    """Return the allowed values of each parameter."""
    return {
        "order": kernels.order_of(*LOOPS),
        **{name: kernels.count() for name in ("ti", "tj", "tk", "unroll", "threads")},
        "pragma": kernels.choice(*PRAGMAS),
        "opt": kernels.Domain(
            lambda v: isinstance(v, str) and re.fullmatch(r"-O([0-3sgz]|fast)", v) is not None,
            "-O0, -O1, -O2, -O3, -Os or -Ofast",
            default=Schedule.opt,
        ),
        "march": kernels.Domain(
            lambda v: isinstance(v, str) and re.fullmatch(r"[A-Za-z0-9][\w.+-]*", v) is not None,
            "generic, native or a name for -march=",
            default=Schedule.march,
        ),
        "fast_math": kernels.Domain(lambda v: isinstance(v, bool), "true or false", default=False),
    }


def inputs(size, rng):
    """Return A and B, (size, size) each."""
    a, b = (rng.uniform(-1.0, 1.0, (size, size)).astype(np.float32) for _ in range(2))
    return a, b


def expected(a, b):
    """Return the product, computed in double precision."""
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)


def magnitude(a, b):
    """Return the largest element of |A| |B|, which rounding errors are proportional to."""
    return (np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))).max()


def requirements(parameters):
    """Return the compiler flags that the space needs: OpenMP if it has threads."""
    has_threads = "threads" in parameters and max(kernels.list_values(parameters["threads"])) > 1
    return ["-fopenmp"] if has_threads else []


def flags(config):
    """Return the compiler's flags for a configuration."""
    schedule = Schedule(**config)
    flags = [schedule.opt]
    if schedule.march != "generic":
        flags.append(f"-march={schedule.march}")
    if schedule.fast_math:
        flags.append("-ffast-math")
    if schedule.threads > 1:
        flags.append("-fopenmp")
    elif schedule.pragma == "omp simd":
        flags.append("-fopenmp-simd")
    return flags


def source(config, size):
    """Return the C source of a configuration.

    An inner loop over a tile of 1 is left out, so that the innermost loop, which has the pragmas, has more than one
    iteration.
    """
    schedule = Schedule(**config)
    check(schedule, size)
    macros = [PROLOGUE] if schedule.unroll > 1 or schedule.pragma == "ivdep" else []
    lines = [
        *macros,
        f"/* C = A B, {size} x {size} float32; flags: {' '.join(flags(config))} */",
        "void kernel(const float *restrict A, const float *restrict B, float *restrict C)",
        "{",
        f"    for (int q = 0; q < {size * size}; q++) C[q] = 0;",
        *nest(schedule, size),
        "}",
    ]
    return "\n".join(lines) + "\n"


def check(schedule, size):
    """Raise `Infeasible` if a schedule has no correct program for this matrix size."""
    for name in ("ti", "tj", "tk"):
        tile = getattr(schedule, name)
        if size % tile:
            raise Infeasible(f"{name} = {tile} does not divide the size {size}", "constraints")
    if schedule.threads > 1 and schedule.order[0].startswith("k"):
        shared = schedule.order[0]
        raise Infeasible(
            f"{schedule.threads} threads share {shared} and would race for the sums", "constraints"
        )


def nest(schedule, size):
    """Return the lines of the loops."""
    loops = [
        loop
        for depth, loop in enumerate(schedule.order)
        if depth == 0 or loop[1] == "o" or getattr(schedule, f"t{loop[0]}") > 1
    ]
    i, j, k = (f"({axis}o + {axis}i)" if f"{axis}i" in loops else f"{axis}o" for axis in "ijk")
    product = f"A[{i} * {size} + {k}] * B[{k} * {size} + {j}]"
    target = f"C[{i} * {size} + {j}]"
    lines = []
    for depth, loop in enumerate(loops[:-1]):
        pad = "    " * (depth + 1)
        if depth == 0 and schedule.threads > 1:
            lines.append(f"{pad}#pragma omp parallel for num_threads({schedule.threads})")
        lines.append(f"{pad}{header(loop, schedule, size)} {{")
    body = innermost(loops[-1], schedule, size, target, product)
    lines += ["    " * len(loops) + line for line in body]
    lines += ["    " * depth + "}" for depth in range(len(loops) - 1, 0, -1)]
    return lines


def header(loop, schedule, size):
    """Return the first line of a loop."""
    tile = getattr(schedule, f"t{loop[0]}")
    end, step = (size, tile) if loop[1] == "o" else (tile, 1)
    return f"for (int {loop} = 0; {loop} < {end}; {loop} += {step})"


def innermost(loop, schedule, size, target, product):
    """Return the lines of the innermost loop.

    A loop over k is a sum, whose iterations depend on each other. It is written with an accumulator: on the element of
    C itself the pragmas would be a false promise.
    """
    is_sum = loop[0] == "k"
    pragmas = []
    if schedule.pragma == "omp simd":
        pragmas.append("#pragma omp simd" + (" reduction(+ : sum)" if is_sum else ""))
    if schedule.pragma == "ivdep":
        pragmas.append("BACO_IVDEP")
    if schedule.unroll > 1:
        pragmas.append(f"BACO_UNROLL({schedule.unroll})")
    first_line = header(loop, schedule, size)
    if not is_sum:
        return [*pragmas, f"{first_line} {target} += {product};"]
    return [
        f"float sum = {target};",
        *pragmas,
        f"{first_line} sum += {product};",
        f"{target} = sum;",
    ]
