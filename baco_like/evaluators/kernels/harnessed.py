"""A compiled kernel within a harness that loads its inputs, checks its result and takes the times, in a child process.

The harness's arguments are what it loads, the tolerance, the warm-ups, the repeats, and three limits in seconds: of the
first warm-up, of the first repeat, of any other run. It prints what `read_report` reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from baco_like.evaluators._processes import process
from baco_like.evaluators._processes.process import Finished
from baco_like.evaluators._processes.stop import Stop
from baco_like.evaluators.bench import StageFailure

WRONG_RESULT = 3
"""Exit code for a result that differs from the reference."""

_COLD = 2.0
"""A warm-up may take so many times what a configuration may that is not clearly slower than the best."""


@dataclass(frozen=True)
class Limits:
    """How kernels are measured.

    Attributes:
        timeout: Seconds for one run of the kernel.
        scale: What a second is in the objective's unit.
        warmup: Runs before the measured ones, at least 1: the first is checked.
        memory: Bytes of address space that the process may have, or None.
        cpus: The CPUs that it may use; None: all.
    """

    timeout: float
    scale: float
    warmup: int = 1
    memory: int | None = None
    cpus: frozenset[int] | None = None


@dataclass(frozen=True)
class HarnessedKernel:
    """A compiled kernel.

    Attributes:
        program: The file.
        inputs: What the harness loads: its first arguments, relative to the program's folder.
        tolerance: Largest difference from the reference.
        limits: How it is measured.
        seconds: Wall time by stage.
        stop: Ends it.
        environment: Variables beside the caller's own.
    """

    program: Path
    inputs: tuple[str, ...]
    tolerance: float
    limits: Limits
    seconds: dict[str, float]
    stop: Stop
    environment: Mapping[str, str] = field(default_factory=dict)

    def measure(self, count: int, limit: float | None) -> tuple[float, ...]:
        """Run it in a child process: a warm-up whose result is checked, ``count`` timed runs, and the check again.

        Raises:
            StageFailure: The result is wrong, it crashes, or it takes too long.
        """
        limits = self.limits
        whole = max(limits.timeout, 1e-3)
        first = whole if limit is None else min(whole, max(limit / limits.scale, 1e-3))
        cold = min(whole, _COLD * first)
        finished = self._run(count, (cold, first, whole))
        self.seconds["run"] = self.seconds.get("run", 0.0) + finished.seconds
        return self._judged(count, finished, first)

    def discard(self) -> None:
        """Remove the file."""
        self.program.unlink(missing_ok=True)

    def _run(self, count: int, seconds: tuple[float, float, float]) -> Finished:
        limits = self.limits
        counts = (limits.warmup, count)
        return process.run(
            [
                *(str(self.program), *self.inputs, repr(self.tolerance), *map(str, counts)),
                *(f"{one:.6f}" for one in seconds),
            ],
            # the harness's own limits come first
            timeout=limits.timeout * sum(counts) + 10.0,
            folder=self.program.parent,
            environment=self.environment,
            memory=limits.memory,
            cpus=limits.cpus,
            stop=self.stop,
        )

    def _judged(self, count: int, finished: Finished, first: float) -> tuple[float, ...]:
        report = read_report(finished.out)
        values = tuple(seconds * self.limits.scale for seconds in report.seconds)
        if finished.ok and len(values) == count:
            return values
        overtime = finished.timed_out or finished.signal == "SIGALRM"
        if overtime and not values:
            message = f"run: stopped after {finished.seconds:.3g} s, the limit of a run being {first:.3g} s"
            raise StageFailure("timeout", message, bound=first * self.limits.scale)
        word, message = self._failure(finished, report, overtime)
        raise StageFailure(word, f"run: {message}", repeats=values)

    def _failure(self, finished: Finished, report: Report, overtime: bool) -> tuple[str, str]:
        if overtime:
            return "timeout", f"a repeat was stopped after {self.limits.timeout:g} s"
        if finished.code == WRONG_RESULT and report.error is not None:
            return "correctness", (
                f"differs from the reference by {report.error:.3g}, tolerance {self.tolerance:.3g}"
            )
        return "runtime", finished.describe()


@dataclass(frozen=True)
class Report:
    """What the harness has printed.

    Attributes:
        seconds: Time of each run after the warm-up.
        error: Largest difference from the reference, if that was too large.
    """

    seconds: tuple[float, ...]
    error: float | None


def read_report(out: str) -> Report:
    """Read the harness's lines; what a crash has torn off is left out."""
    seconds: list[float] = []
    error: float | None = None
    for line in out.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and isinstance(entry.get("seconds"), float):
            seconds.append(entry["seconds"])
        elif isinstance(entry, dict) and isinstance(entry.get("error"), (int, float)):
            error = float(entry["error"])
    return Report(tuple(seconds), error)
