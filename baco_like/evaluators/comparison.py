"""Compare the arrays that programs and kernels compute with the correct ones, element by element.

An element is right if its distance from the correct one is at most::

    tolerance * magnitude + rtol * |correct| + atol

where ``magnitude`` is the largest finite magnitude of the correct array. NaN and infinities must be in the same
places, infinities with the same sign; of complex numbers this holds for both parts. Where no tolerance is given,
integers and booleans must be equal, and floating-point numbers have a ``tolerance`` by their type.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from baco_like._tables import Shape
from baco_like.exceptions import EvaluatorError

BFLOAT16 = np.dtype([("bfloat16", np.uint16)])
"""Type of arrays of bfloat16, which NumPy does not have; `to_bfloat16` makes them. The type of the package ml_dtypes
is accepted, too."""

_DEFAULTS = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 1e-5, "complex64": 1e-5}
_DEFAULT_OF_DOUBLE = 1e-9
"""Default tolerances, relative to the largest magnitude.

Measured on the kernels of ``examples/kernels`` (sizes 128 to 1024, sums in sequence and by BLAS): in single precision,
correct ones differ by at most 1.1e-6. Wrong ones, a sum without its last term, a step left out, or products in TF32 or
half precision, differ by 2.4e-4 or more. Sums of 100,000 terms in double precision differ by 1.4e-14, and by 4e-7 if
they are computed in single precision, which is an error. Results in 16 bits may differ by two units in the last place
of the largest element.

A default per element (``rtol = 1e-5``) refuses correct matrix products and convolutions, whose small elements are
differences of large terms: 1 % of the elements of a product of size 512. So does ``rtol = 1.3e-6, atol = 1e-5``, which
PyTorch uses, from that size on.
"""

_CHUNK = 2**15
"""Elements that are compared at a time, so that intermediate arrays stay in the cache."""

_NotNegative = Annotated[float, Shape(type="number", minimum=0)]


@dataclass(frozen=True, kw_only=True)
class Tolerances:
    """How far results may be from the correct ones; see the top of this module.

    Attributes:
        tolerance: Accepted error of each element, relative to the largest magnitude of the correct result; 0: exact;
            None: by type if ``rtol`` and ``atol`` are absent, too: 1e-5 for float32, 1e-9 for float64, 2e-3 for
            float16, 1.6e-2 for bfloat16; integers exactly.
        rtol: Accepted error of each element, relative to this element of the correct result; added to the others;
            None: 0.
        atol: Accepted error of each element; added to the others; None: 0.
    """

    tolerance: _NotNegative | None = None
    rtol: _NotNegative | None = None
    atol: _NotNegative | None = None


TOLERANCES_BY_TYPE = Tolerances()


class Comparison(NamedTuple):
    """How far an array is from the correct one.

    Attributes:
        error: Largest distance of an element, relative to the magnitude; infinity if infinities or NaN are in other
            places, or if the sizes differ.
        problem: A description of the first wrong element, or None if all are right.
    """

    error: float
    problem: str | None


class Expected:
    """A correct array, and how far others may be from it.

    Args:
        array: Booleans, integers, floating-point or complex numbers, also `BFLOAT16`; any shape.
        tolerance: Accepted error, relative to ``magnitude``.
        rtol: Accepted error, relative to each element.
        atol: Accepted error, absolute. If all three are None, the default of the type is the ``tolerance``.
        magnitude: What ``tolerance`` and the reported errors are relative to; None: the largest finite magnitude of the
            array, or 1 if that is 0.
        default: The default tolerance of floating-point numbers; None: the one of their type.
        name: Name of the array, for messages.

    Raises:
        EvaluatorError: The array is empty or all NaN, or has no numbers; or a tolerance is negative.
    """

    @np.errstate(invalid="ignore", over="ignore")
    def __init__(
        self,
        array: ArrayLike,
        *,
        tolerance: float | None = None,
        rtol: float | None = None,
        atol: float | None = None,
        magnitude: float | None = None,
        default: float | None = None,
        name: str = "the correct result",
    ) -> None:
        given = {"tolerance": tolerance, "rtol": rtol, "atol": atol, "magnitude": magnitude}
        for key, value in given.items():
            if value is not None and not 0 <= value < math.inf:
                raise EvaluatorError(f"{key} = {value}: expected a finite number, 0 or more")
        self.array = np.asarray(array)
        if self.array.dtype.kind not in "biufc" and type_name(self.array.dtype) != "bfloat16":
            raise EvaluatorError(
                f"{name} has the type {self.array.dtype}: expected an array of booleans, integers, floating-point or "
                "complex numbers"
            )
        if not self.array.size:
            raise EvaluatorError(f"{name} is empty, so any output would be right")
        self._flat = np.ascontiguousarray(self.array).reshape(-1)
        chunks = [_numbers(chunk) for (chunk,) in _chunks(self._flat)]
        if all(np.isnan(chunk).all() for chunk in chunks):
            raise EvaluatorError(f"all elements of {name} are NaN, so nothing can be checked")
        self._is_finite = all(np.isfinite(chunk).all() for chunk in chunks)
        largest = max(float(_sizes(chunk).max()) for chunk in chunks)
        self.magnitude = magnitude or largest or 1.0
        self._given = tolerance, rtol, atol
        self._default = default

    @np.errstate(invalid="ignore", over="ignore")
    def compare(self, output: NDArray[Any]) -> Comparison:
        """Return how far an output is from the correct array.

        Args:
            output: Of the same shape, or of one dimension with as many elements.
        """
        output, expected = np.asarray(output), self.array
        if output.size != expected.size:
            return Comparison(math.inf, f"{output.size} numbers instead of {expected.size}")
        if output.ndim > 1 and expected.ndim > 1 and output.shape != expected.shape:
            return Comparison(math.inf, f"the shape {output.shape} instead of {expected.shape}")
        flat = np.ascontiguousarray(output).reshape(-1)
        relative, absolute = self._limits(output.dtype)
        worst, wrong, first = 0.0, 0, -1
        # Single and double precision in few passes, as benches compare after each measurement.
        is_fast = self._is_finite and flat.dtype == self._flat.dtype and flat.dtype.char in "fd"
        scratch = np.empty(_CHUNK if is_fast else 0, flat.dtype)
        for number, (a, b) in enumerate(_chunks(flat, self._flat)):
            if is_fast:
                difference = scratch[: a.size]
                np.subtract(a, b, out=difference)
                error = max(float(difference.max()), -float(difference.min()))
                if error <= absolute * (1 - 1e-6):  # less by more than the rounding of differences
                    worst = max(worst, error)
                    continue
            a, b = _numbers(a), _numbers(b)
            if a.dtype == b.dtype and (a == b).all():
                continue
            distances = _distances(a, b)
            is_right = (distances <= relative * _sizes(b) + absolute) & (distances < math.inf)
            worst = max(worst, float(distances.max()))
            if not is_right.all():
                if first < 0:
                    first = number * _CHUNK + int(is_right.argmin())
                wrong += int(is_right.size - np.count_nonzero(is_right))
        if not wrong:
            return Comparison(worst / self.magnitude, None)
        found, correct = (_numbers(array[first : first + 1]) for array in (flat, self._flat))
        index = np.unravel_index(first, expected.shape)
        where = tuple(map(int, index)) if len(index) > 1 else first
        limit = relative * float(_sizes(correct)[0]) + absolute
        accepted = f" (accepted error: {limit:.3g})" if limit else ""
        problem = (
            f"element {where} is {found[0]!s} instead of {correct[0]!s}{accepted}; {wrong} of {flat.size} elements "
            f"{'is' if wrong == 1 else 'are'} wrong"
        )
        return Comparison(worst / self.magnitude, problem)

    def _limits(self, dtype: np.dtype[Any]) -> tuple[float, float]:
        """Return the accepted error relative to an element, and the absolute one, of an output of this type."""
        tolerance, rtol, atol = self._given
        if tolerance is None and rtol is None and atol is None:
            names = {
                type_name(each) for each in (dtype, self.array.dtype) if each.kind not in "biu"
            }
            by_type = max((_DEFAULTS.get(name, _DEFAULT_OF_DOUBLE) for name in names), default=0.0)
            tolerance = by_type if self._default is None or not names else self._default
        return rtol or 0.0, (tolerance or 0.0) * self.magnitude + (atol or 0.0)


def type_name(dtype: np.dtype[Any]) -> str:
    """Return the name of an element type: ``float32``, ``bool``, ``bfloat16``."""
    return "bfloat16" if dtype == BFLOAT16 else dtype.name


def to_bfloat16(array: ArrayLike) -> NDArray[Any]:
    """Return numbers rounded to bfloat16 (to nearest, ties to even), as an array of `BFLOAT16`."""
    single = np.ascontiguousarray(array, dtype=np.float32)
    bits = single.view(np.uint32)
    rounded = (bits + (0x7FFF + (bits >> 16 & 1)).astype(np.uint32)) >> 16
    quiet_nan = bits >> 16 | 0x40  # rounding would make infinities of some NaN
    return np.where(np.isnan(single), quiet_nan, rounded).astype(np.uint16).view(BFLOAT16)


def from_bfloat16(array: NDArray[Any]) -> NDArray[np.float32]:
    """Return the numbers of an array of bfloat16 in single precision."""
    bits = np.ascontiguousarray(array).view(np.uint16).astype(np.uint32)
    return (bits << 16).view(np.float32)


def _chunks(*arrays: NDArray[Any]) -> Iterator[tuple[NDArray[Any], ...]]:
    for start in range(0, arrays[0].size, _CHUNK):
        yield tuple(array[start : start + _CHUNK] for array in arrays)


def _numbers(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array whose elements NumPy can calculate with."""
    return from_bfloat16(array) if type_name(array.dtype) == "bfloat16" else array


def _sizes(array: NDArray[Any]) -> NDArray[Any]:
    """Return the magnitudes in double precision or more; parts that are not finite count as 0."""
    if array.dtype.kind == "c":
        sizes: NDArray[Any] = np.hypot(_sizes(array.real), _sizes(array.imag))
        return sizes.clip(max=np.finfo(sizes.dtype).max)  # it may overflow
    wide = np.abs(array.astype(np.promote_types(array.dtype, np.float64)))
    return np.where(np.isfinite(wide), wide, 0.0)


def _distances(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Return |a - b|: exact for integers; infinite where a part is not finite and not the same."""
    kinds = a.dtype.kind + b.dtype.kind
    if "c" in kinds:
        return np.asarray(np.hypot(_distances(a.real, b.real), _distances(a.imag, b.imag)))
    common = np.result_type(a.dtype, b.dtype, np.uint8)
    if "f" not in kinds and common.kind == "f":  # no type holds both int64 and uint64
        exact: NDArray[Any] = np.abs(a.astype(object) - b.astype(object))
        return exact.astype(np.float64)
    if "f" not in kinds:
        a, b = a.astype(common), b.astype(common)
        # The difference may exceed a signed type; modulo 2**64 it is exact.
        modular: NDArray[Any] = np.maximum(a, b).astype(np.uint64) - np.minimum(a, b).astype(
            np.uint64
        )
        return modular
    wide = np.promote_types(common, np.float64)
    a, b = a.astype(wide), b.astype(wide)
    is_same = (a == b) | (np.isnan(a) & np.isnan(b))
    is_finite = np.isfinite(a) & np.isfinite(b)
    return np.where(is_same, 0.0, np.where(is_finite, np.abs(a - b), math.inf))
