"""Which exceptions of a user's function mean that the configuration failed, and with which failure word.

Exceptions of GPU packages are identified by name, so that these packages need not be imported.
"""

from __future__ import annotations

import concurrent.futures
import subprocess
from collections.abc import Mapping, Set

from baco_like.exceptions import Infeasible

DEFAULT_FAILURES: tuple[type[BaseException], ...] = (
    Infeasible,
    subprocess.SubprocessError,
    TimeoutError,
    concurrent.futures.TimeoutError,  # a separate class in Python 3.10
)
"""Exceptions of these types are failures of the configuration by default."""

_TIMEOUTS = (subprocess.TimeoutExpired, TimeoutError, concurrent.futures.TimeoutError)

_COMPILE_ERRORS: Mapping[str, Set[str]] = {
    "cupy": {"CompileException"},
    "cupy_backends": {"NVRTCError"},
    "numba": {"LinkerError", "NvvmError"},
    "pycuda": {"CompileError"},
    "triton": {"CompilationError", "PTXASError"},
}
"""Names of exception classes that mean ``compile``, by top-level package."""

_RUNTIME_ERRORS: Mapping[str, Set[str]] = {
    "cupy": {"OutOfMemoryError"},
    "cupy_backends": {"CUDADriverError", "CUDARuntimeError"},
    "halide": {"HalideError"},
    "numba": {"CudaAPIError"},
    "pycuda": {"LaunchError", "LogicError", "MemoryError", "RuntimeError"},
    "pyopencl": {"LogicError", "MemoryError", "RuntimeError"},
    "torch": {"AcceleratorError", "OutOfMemoryError"},
    "triton": {"OutOfResources"},
}
"""Names of exception classes that mean ``runtime``, by top-level package."""


def failure_word(error: BaseException, failures: tuple[type[BaseException], ...]) -> str | None:
    """Return the failure word of an exception, or None if it is not a failure of the configuration.

    Args:
        error: The exception. GPU errors and `Infeasible` always count.
        failures: Additional types that count, subclasses included.
    """
    for base in type(error).__mro__:
        package = base.__module__.split(".", 1)[0]
        if base.__name__ in _COMPILE_ERRORS.get(package, ()):
            return "compile"
        if base.__name__ in _RUNTIME_ERRORS.get(package, ()):
            return "runtime"
    if isinstance(error, Infeasible):
        return error.failed
    if not isinstance(error, failures):
        return None
    if isinstance(error, _TIMEOUTS):
        return "timeout"
    return "compile" if "compil" in type(error).__name__.lower() else "runtime"
