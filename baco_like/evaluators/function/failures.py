"""Which exceptions of a user's function mean that the configuration failed, and with which word.

Exceptions of GPU packages are known by name, so that none of the packages is imported for it.
"""

from __future__ import annotations

import concurrent.futures
import subprocess
from collections.abc import Iterator, Mapping

from baco_like.exceptions import Infeasible

DEFAULT_FAILURES: tuple[type[BaseException], ...] = (
    Infeasible,
    subprocess.SubprocessError,
    TimeoutError,
    concurrent.futures.TimeoutError,  # a class of its own in Python 3.10
)
"""Exceptions of these types are failures of the configuration unless a user says otherwise."""

_TIMEOUTS = (subprocess.TimeoutExpired, TimeoutError, concurrent.futures.TimeoutError)

_BY_NAME: Mapping[tuple[str, str], str] = {
    ("cupy", "CompileException"): "compile",
    ("cupy", "OutOfMemoryError"): "runtime",
    ("cupy_backends", "NVRTCError"): "compile",
    ("cupy_backends", "CUDADriverError"): "runtime",
    ("cupy_backends", "CUDARuntimeError"): "runtime",
    ("pycuda", "CompileError"): "compile",
    ("pycuda", "LaunchError"): "runtime",
    ("pycuda", "LogicError"): "runtime",
    ("pycuda", "MemoryError"): "runtime",
    ("pycuda", "RuntimeError"): "runtime",
    ("pyopencl", "LogicError"): "runtime",
    ("pyopencl", "MemoryError"): "runtime",
    ("pyopencl", "RuntimeError"): "runtime",
    ("numba", "NvvmError"): "compile",
    ("numba", "LinkerError"): "compile",
    ("numba", "CudaAPIError"): "runtime",
    ("triton", "CompilationError"): "compile",
    ("triton", "PTXASError"): "compile",
    ("triton", "OutOfResources"): "runtime",
    ("torch", "OutOfMemoryError"): "runtime",
    ("torch", "AcceleratorError"): "runtime",
    ("halide", "HalideError"): "runtime",
}
"""Errors of launching and compiling, by the package they come from and the name of their class."""


def failure_word(error: BaseException, failures: tuple[type[BaseException], ...]) -> str | None:
    """Return the failure word of an exception, or None if it is no failure of the configuration.

    Args:
        error: What was raised. GPU errors and `Infeasible` always count.
        failures: Further types that count, subclasses included.
    """
    for package, name in _names(type(error)):
        word = _BY_NAME.get((package, name))
        if word is not None:
            return word
    if isinstance(error, Infeasible):
        return error.failed
    if not isinstance(error, failures):
        return None
    if isinstance(error, _TIMEOUTS):
        return "timeout"
    return "compile" if "compil" in type(error).__name__.lower() else "runtime"


def _names(kind: type[BaseException]) -> Iterator[tuple[str, str]]:
    for base in kind.__mro__:
        yield base.__module__.split(".", 1)[0], base.__name__
