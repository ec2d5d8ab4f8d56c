"""How a kernel is timed: compile it, launch it, compare its result and time its runs, all in a worker process.

This module runs in the worker. The languages differ only in how a kernel is made and run once (`CompiledKernel`); the
requests, the order of the stages, their limits and the comparison with the correct result are the same. The requests
come from `baco_like.evaluators.kernels.worker_bench`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from baco_like.evaluators._processes.worker_main import Report
from baco_like.evaluators.comparison import Expected
from baco_like.records.reading import finite_number

_PAGE = 4096
"""Bytes of a memory page."""

_SHIFT = 320
"""Bytes by which the start of each array is shifted within its page, see `copy_aligned`."""


LONGEST = 1e9
"""Seconds, 30 years; JSON has no infinity."""


def is_seconds(value: Any) -> bool:
    """Whether a value that a kernel's process has sent is a possible duration in seconds."""
    return isinstance(value, float) and 0 <= value <= LONGEST


class CompiledKernel(Protocol):
    """A compiled kernel with its inputs."""

    @property
    def identity(self) -> str | None:
        """Hash of the program and of all else that its times depend on (`hash_parts`); None if it is unknown."""

    def prepare(self) -> None:
        """Copy the inputs to where the kernel reads them, and fill the output by `poison`."""

    def run(self) -> float:
        """Run the kernel once, wait for its end, and return the seconds that it took."""

    def result(self) -> NDArray[Any]:
        """Return the output of the last run."""


@dataclass(frozen=True)
class KernelLimits:
    """Limits of the stages, in seconds, and the accepted errors.

    Attributes:
        timeout: Limit of one run.
        build_timeout: Limit of the compilation.
        launch_timeout: Limit of the first launch; some drivers compile during it.
        tolerance: As `rtol` and `atol`, for `baco_like.evaluators.comparison.Expected`.
        rtol: See there.
        atol: See there.
    """

    timeout: float
    build_timeout: float
    launch_timeout: float
    tolerance: float | None = None
    rtol: float | None = None
    atol: float | None = None


class KernelServer:
    """Request handler of a worker: compiles kernels and measures them.

    Args:
        compile: Compiles the kernel of a configuration.
        expected: The correct result.
        limits: Limits of the stages.

    Raises:
        EvaluatorError: The correct result is empty or all NaN.
    """

    def __init__(
        self,
        compile: Callable[[Mapping[str, Any]], CompiledKernel],
        expected: NDArray[Any],
        limits: KernelLimits,
    ) -> None:
        self._compile, self._limits = compile, limits
        self._expected = Expected(
            expected, tolerance=limits.tolerance, rtol=limits.rtol, atol=limits.atol
        )
        self._kernels: dict[int, CompiledKernel] = {}
        self._launched: set[int] = set()  # keys of the kernels that have run

    def __call__(self, request: Mapping[str, Any], report: Report) -> Mapping[str, Any] | None:
        """Compile a configuration, or measure a compiled kernel.

        Args:
            request: To compile: ``config``, the ``key`` under which to keep the kernel, and ``drop``, a list of keys
                that are not needed any more. To measure: ``key``, ``count`` (number of runs), ``timeout`` (seconds of
                one run) and ``enough`` (a run longer than these seconds is the last one).
            report: Receives the stages ``compile``, ``launch`` (the first run), ``check`` and ``run``, and the time
                of each run as a note.

        Returns:
            For a compilation ``{"identity": ...}``, see `CompiledKernel`. For a measurement ``{"problem": ...,
            "error": ...}``: a description of the wrong result, or None if the result is correct; and its largest
            relative error. None if there is no kernel under ``key``.
        """
        if "config" not in request:
            return self._measure(request, report)
        report.stage("compile", self._limits.build_timeout)
        for key in request["drop"]:  # unloading counts as time of the compiler
            self._kernels.pop(key, None)
        # JSON has turned permutations into lists.
        config = {k: tuple(v) if isinstance(v, list) else v for k, v in request["config"].items()}
        kernel = self._kernels[request["key"]] = self._compile(config)
        return {"identity": kernel.identity}

    def _measure(self, request: Mapping[str, Any], report: Report) -> dict[str, Any] | None:
        kernel = self._kernels.get(request["key"])
        if kernel is None:
            return None
        if request["key"] not in self._launched:
            kernel.prepare()
            report.stage("launch", self._limits.launch_timeout)
            kernel.run()
            self._launched.add(request["key"])
            checked = self._check(kernel, report)
            if checked["problem"] is not None:
                return checked
        for _ in range(request["count"]):
            report.stage("run", request["timeout"])
            seconds = kernel.run()
            report.note(seconds)
            if seconds > request["enough"]:
                break
        return self._check(kernel, report)  # again: a race may show only in a later run

    def _check(self, kernel: CompiledKernel, report: Report) -> dict[str, Any]:
        report.stage("check", self._limits.build_timeout)
        found = self._expected.compare(kernel.result())
        # JSON has no infinity.
        return {"problem": found.problem, "error": finite_number(found.error)}


def hash_parts(*parts: object) -> str:
    """Return a hash of the text of some objects; programs with equal parts are measured once."""
    return sha256(repr(parts).encode()).hexdigest()[:32]


def poison(array: NDArray[Any]) -> None:
    """Fill an array with values that no kernel writes by chance: NaN, or -1 for whole numbers."""
    array.view(np.uint8).fill(0xFF)


def copy_aligned(array: NDArray[Any], number: int) -> NDArray[Any]:
    """Return a C-contiguous copy at the same offset within a memory page in every process.

    The offset decides how fast vector loads are, so that without this the same kernel would take different times in
    two processes. Arrays whose addresses differ by whole pages compete for the same cache sets; therefore each array
    of a kernel gets another offset.

    Args:
        array: Any array.
        number: Index of the array among the arrays of a kernel.
    """
    shift = number * _SHIFT % _PAGE
    raw = np.empty(array.nbytes + 2 * _PAGE, np.uint8)
    start = -raw.ctypes.data % _PAGE + shift
    copy: NDArray[Any] = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
