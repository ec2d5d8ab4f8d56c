"""C source of a matrix multiplication with tiled, ordered, unrolled and shared loops.

The product ``C = A B`` of square float32 matrices has three loops, i, j and k; each is split into
an outer one that steps from tile to tile (io, jo, ko) and an inner one within the tile (ii, ji,
ki), and the six may stand in any order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from baco_like.evaluators.kernels.domains import Domain, choice, order_of

LOOPS = ("io", "jo", "ko", "ii", "ji", "ki")
PRAGMAS = ("none", "ivdep", "omp simd")

_PROLOGUE = """\
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
    """One way to run the loops; the defaults are the plain ``ijk`` nest at -O2.

    Attributes:
        order: The six loops, outermost first.
        ti: Tile of i; it divides the matrix size, as the others do.
        tj: Tile of j.
        tk: Tile of k.
        unroll: How often the innermost loop is unrolled (1: the compiler decides).
        pragma: What the innermost loop is told: ``none``, ``ivdep`` (iterations do not depend on
            each other) or ``omp simd``. gcc refuses ``omp simd`` together with ``unroll``.
        opt: Optimisation level, as the compiler wants it: ``-O2``.
        march: Instruction set: ``generic`` (the compiler's default), ``native``, or another name
            for ``-march=``.
        fast_math: Whether sums may be reordered (``-ffast-math``).
        threads: How many OpenMP threads share the outermost loop.
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


_COUNT = Domain(
    lambda v: isinstance(v, int) and not isinstance(v, bool) and 1 <= v <= 2**20,
    "a whole number, 1 or more",
    default=1,
)

DOMAINS: Mapping[str, Domain] = {
    "order": order_of(*LOOPS),
    "ti": _COUNT,
    "tj": _COUNT,
    "tk": _COUNT,
    "unroll": _COUNT,
    "pragma": choice(*PRAGMAS),
    "opt": Domain(
        lambda v: isinstance(v, str) and re.fullmatch(r"-O([0-3sgz]|fast)", v) is not None,
        "-O0, -O1, -O2, -O3, -Os or -Ofast",
        default=Schedule.opt,
    ),
    "march": Domain(
        lambda v: isinstance(v, str) and re.fullmatch(r"[A-Za-z0-9][\w.+-]*", v) is not None,
        "generic, native or a name for -march=",
        default=Schedule.march,
    ),
    "fast_math": Domain(lambda v: isinstance(v, bool), "true or false", default=False),
    "threads": _COUNT,
}
"""Per field of `Schedule`."""


def violation(schedule: Schedule, size: int) -> str | None:
    """Return why a schedule is not a correct program for this matrix size, or None if it is."""
    for name in ("ti", "tj", "tk"):
        tile = getattr(schedule, name)
        if size % tile:
            return f"{name} = {tile} does not divide the size {size}"
    if schedule.threads > 1 and schedule.order[0].startswith("k"):
        return f"{schedule.threads} threads share {schedule.order[0]} and would race for the sums"
    return None


def compiler_flags(schedule: Schedule) -> list[str]:
    """Return the compiler's flags for a schedule."""
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


def kernel_source(schedule: Schedule, size: int) -> str:
    """Return the C source of ``void kernel(A, B, C)`` for square matrices, stored by rows.

    An inner loop over a tile of 1 is left out, so that the innermost loop, to which
    `Schedule.unroll` and `Schedule.pragma` belong, is one that does something.
    """
    macros = [_PROLOGUE] if schedule.unroll > 1 or schedule.pragma == "ivdep" else []
    lines = [
        *macros,
        f"/* C = A B, {size} x {size} float32; flags: {' '.join(compiler_flags(schedule))} */",
        "void kernel(const float *restrict A, const float *restrict B, float *restrict C)",
        "{",
        f"    for (int q = 0; q < {size * size}; q++) C[q] = 0;",
        *_nest(schedule, size),
        "}",
    ]
    return "\n".join(lines) + "\n"


def _nest(schedule: Schedule, size: int) -> list[str]:
    loops = [
        loop
        for depth, loop in enumerate(schedule.order)
        if depth == 0 or loop[1] == "o" or getattr(schedule, f"t{loop[0]}") > 1
    ]
    place = {axis: _index(axis, loops) for axis in "ijk"}
    product = f"A[{place['i']} * {size} + {place['k']}] * B[{place['k']} * {size} + {place['j']}]"
    target = f"C[{place['i']} * {size} + {place['j']}]"
    innermost = loops[-1]
    lines = []
    for depth, loop in enumerate(loops[:-1]):
        pad = "    " * (depth + 1)
        if depth == 0 and schedule.threads > 1:
            lines.append(f"{pad}#pragma omp parallel for num_threads({schedule.threads})")
        lines.append(f"{pad}{_header(loop, schedule, size)} {{")
    body = _innermost(innermost, schedule, size, target, product)
    lines += ["    " * len(loops) + line for line in body]
    lines += ["    " * depth + "}" for depth in range(len(loops) - 1, 0, -1)]
    return lines


def _index(axis: str, loops: list[str]) -> str:
    return f"({axis}o + {axis}i)" if f"{axis}i" in loops else f"{axis}o"


def _header(loop: str, schedule: Schedule, size: int) -> str:
    tile = getattr(schedule, f"t{loop[0]}")
    end, step = (size, tile) if loop[1] == "o" else (tile, 1)
    return f"for (int {loop} = 0; {loop} < {end}; {loop} += {step})"


def _innermost(loop: str, schedule: Schedule, size: int, target: str, product: str) -> list[str]:
    """Return the innermost loop.

    Over k it is a sum, whose iterations do depend on each other; it is written with an accumulator,
    because the pragmas would be a false promise about the element of C.
    """
    sums = loop[0] == "k"
    pragmas = []
    if schedule.pragma == "omp simd":
        pragmas.append("#pragma omp simd" + (" reduction(+ : sum)" if sums else ""))
    if schedule.pragma == "ivdep":
        pragmas.append("BACO_IVDEP")
    if schedule.unroll > 1:
        pragmas.append(f"BACO_UNROLL({schedule.unroll})")
    header = _header(loop, schedule, size)
    if not sums:
        return [*pragmas, f"{header} {target} += {product};"]
    return [
        f"float sum = {target};",
        *pragmas,
        f"{header} sum += {product};",
        f"{target} = sum;",
    ]
