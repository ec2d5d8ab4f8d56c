"""Which exceptions of a user's function mean that the configuration failed, and with which failure word.

Exceptions of GPU packages are identified by name, so that these packages need not be imported.
"""

from __future__ import annotations

import concurrent.futures
import subprocess
from collections.abc import Mapping

from baco_like.exceptions import Infeasible

DEFAULT_FAILURES: tuple[type[BaseException], ...] = (
    Infeasible,
    subprocess.SubprocessError,
    TimeoutError,
    concurrent.futures.TimeoutError,  # a separate class in Python 3.10
)
"""Exceptions of these types are failures of the configuration by default."""

_TIMEOUTS = (subprocess.TimeoutExpired, TimeoutError, concurrent.futures.TimeoutError)

_WORDS: Mapping[tuple[str, str], str] = {
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
"""Failure words of launch and compile errors, by top-level package and class name."""


def failure_word(error: BaseException, failures: tuple[type[BaseException], ...]) -> str | None:
    """Return the failure word of an exception, or None if it is not a failure of the configuration.

    Args:
        error: The exception. GPU errors and `Infeasible` always count.
        failures: Additional types that count, subclasses included.
    """
    for base in type(error).__mro__:
        word = _WORDS.get((base.__module__.split(".", 1)[0], base.__name__))
        if word is not None:
            return word
    if isinstance(error, Infeasible):
        return error.failed
    if not isinstance(error, failures):
        return None
    if isinstance(error, _TIMEOUTS):
        return "timeout"
    return "compile" if "compil" in type(error).__name__.lower() else "runtime"
