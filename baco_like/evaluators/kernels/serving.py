"""Kernels in a worker process: compile them, launch them, compare their results, time them.

What differs between targets is how a kernel is made and run once; the requests, the order of the stages, their limits
and the comparison with the reference are here. The requests come from `baco_like.evaluators.kernels`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from baco_like.evaluators._processes.worker_main import Report
from baco_like.evaluators.command.reference import difference

_PAGE, _SHIFT = 4096, 320
"""Bytes."""


class Kernel(Protocol):
    """A kernel that is compiled and has its inputs."""

    def prepare(self) -> None:
        """Put the inputs in their places, and in the output's what no kernel writes (`poison`)."""

    def run(self) -> float:
        """Run it once, to its end, and return the seconds that it took."""

    def result(self) -> NDArray[Any]:
        """Return what the last run has written."""


@dataclass(frozen=True)
class Plan:
    """Limits in seconds, and what counts as right.

    Attributes:
        timeout: Limit of one run.
        build_timeout: Limit of the compilation.
        launch_timeout: Limit of the first launch, in which some drivers go on compiling.
        tolerance: Largest difference from the reference, relative to the largest element of the reference.
    """

    timeout: float
    build_timeout: float
    launch_timeout: float
    tolerance: float

    def to_dict(self) -> dict[str, float]:
        """Return it as JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class Server:
    """The handler of a worker: answers ``compile`` and ``measure``.

    Attributes:
        compile: Makes the kernel of a configuration.
        expected: What every kernel has to write.
        plan: The limits.
    """

    compile: Callable[[Mapping[str, Any]], Kernel]
    expected: NDArray[Any]
    plan: Plan
    _kernels: dict[int, _Kept] = field(default_factory=dict, init=False)

    @functools.cached_property
    def _scale(self) -> float:
        return float(np.abs(self.expected).max())

    @functools.cached_property
    def _scratch(self) -> NDArray[Any]:
        return np.empty_like(self.expected)

    def __call__(
        self, request: Mapping[str, Any], report: Report
    ) -> Mapping[str, str | None] | None:
        """Compile a configuration, or measure what is compiled.

        Args:
            request: With ``config`` and ``drop`` (keys that are not needed any more): compile, keep it by ``key``.
                With ``count``, ``enough`` and ``timeout`` (seconds): measure what is kept by ``key``, until a run
                takes more than ``enough``.
            report: Gets the stages ``compile``, ``launch`` (the first run), ``check`` and ``run``, and every time as
                a note.

        Returns:
            For a measurement the ``problem`` of the result, or None where it is right; for a compilation, and where
            nothing is kept by ``key``, None.
        """
        if "config" in request:
            self._compile(request, report)
            return None
        return self._measured(request, report)

    def _compile(self, request: Mapping[str, Any], report: Report) -> None:
        report.stage("compile", self.plan.build_timeout)
        for key in request["drop"]:  # unloading is the compiler's time, too
            self._kernels.pop(key, None)
        self._kernels[request["key"]] = _Kept(self.compile(_config(request["config"])))

    def _measured(self, request: Mapping[str, Any], report: Report) -> dict[str, str | None] | None:
        kept = self._kernels.get(request["key"])
        if kept is None:
            return None
        kernel = kept.kernel
        if not kept.launched:
            kernel.prepare()
            report.stage("launch", self.plan.launch_timeout)
            kernel.run()
            kept.launched = True
            checked = self._checked(kernel, report)
            if checked["problem"] is not None:
                return checked
        for _ in range(request["count"]):
            report.stage("run", request["timeout"])
            seconds = kernel.run()
            report.note(seconds)
            if seconds > request["enough"]:
                break
        return self._checked(kernel, report)

    def _checked(self, kernel: Kernel, report: Report) -> dict[str, str | None]:
        """Compare the result; also after the last run, as a race may show only then."""
        report.stage("check", self.plan.build_timeout)
        result = kernel.result()
        if self._agrees(result):
            return {"problem": None}
        return {"problem": difference(result, self.expected, self.plan.tolerance)}

    def _agrees(self, result: NDArray[Any]) -> bool:
        """Whether no element is off by too much, the quick way, which does not know all that `difference` does."""
        if self.expected.dtype.kind != "f":
            return False
        with np.errstate(invalid="ignore", over="ignore"):
            np.subtract(result, self.expected, out=self._scratch)
        np.abs(self._scratch, out=self._scratch)
        return bool(self._scratch.max() <= self.plan.tolerance * self._scale)


@dataclass
class _Kept:
    kernel: Kernel
    launched: bool = False


def _config(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with its permutations, which JSON has made lists, as tuples."""
    return {name: tuple(v) if isinstance(v, list) else v for name, v in told.items()}


def poison(array: NDArray[Any]) -> None:
    """Fill an array with what no kernel writes by chance: NaN, or -1 in whole numbers."""
    array.view(np.uint8).fill(0xFF)


def aligned(array: NDArray[Any], number: int) -> NDArray[Any]:
    """Return a copy whose place in memory is the same in every process: vectors that are not aligned take longer.

    Args:
        array: In any order.
        number: Of the array among those of a kernel; each begins at another place within a page, as addresses that
            differ by whole pages get into each other's way in caches.
    """
    shift = number * _SHIFT % _PAGE
    raw = np.empty(array.nbytes + 2 * _PAGE, np.uint8)
    start = -raw.ctypes.data % _PAGE + shift
    copy: NDArray[Any] = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
