"""Run a compiled kernel with its harness in a child process, and read the harness's report.

The harness (``harness.c``) loads the inputs, checks the result and takes the times. Its arguments are the file of the
arrays, the tolerance, the number of warm-ups and of repeats, and three limits in seconds: of the first warm-up, of the
first repeat, and of any other run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from baco_like.evaluators._processes import process
from baco_like.evaluators._processes.process import Finished, Stop
from baco_like.evaluators.bench import StageFailure

_EXIT_WRONG_RESULT = 3
"""Exit code of the harness for a wrong result."""

_COLD_FACTOR = 2.0
"""A first run with cold caches may take this factor longer than the limit of a run."""


@dataclass(frozen=True)
class RunLimits:
    """Limits of the runs.

    Attributes:
        timeout: Limit of one run of the kernel, in seconds.
        scale: Units of the objective in one second.
        warmup: Runs before the measured ones, at least 1: the result of the first run is checked.
        memory: Limit of the address space of the process in bytes, or None.
        cpus: Numbers of the CPUs that the process may use; None for all.
    """

    timeout: float
    scale: float
    warmup: int = 1
    memory: int | None = None
    cpus: frozenset[int] | None = None


@dataclass(frozen=True)
class CProgram:
    """A compiled kernel.

    Attributes:
        program: Path of the executable.
        tolerance: Largest accepted absolute error.
        limits: Limits of the runs.
        seconds: Wall time by stage, to be completed.
        stop: Ends the process when the evaluator is closed.
        environment: Additional environment variables.
    """

    program: Path
    tolerance: float
    limits: RunLimits
    seconds: dict[str, float]
    stop: Stop
    environment: Mapping[str, str] = field(default_factory=dict)

    def measure(self, count: int, limit: float | None) -> tuple[float, ...]:
        """Run the kernel in a child process: a warm-up whose result is checked, ``count`` timed runs, a second check.

        Raises:
            StageFailure: The result is wrong, the process crashes, or a run takes too long.
        """
        limits = self.limits
        timeout = max(limits.timeout, 1e-3)  # the harness's timer would never fire at 0
        first = timeout if limit is None else min(timeout, max(limit / limits.scale, 1e-3))
        finished = self._run(count, (min(timeout, _COLD_FACTOR * first), first, timeout))
        self.seconds["run"] = self.seconds.get("run", 0.0) + finished.seconds
        report = read_report(finished.out)
        values = tuple(seconds * limits.scale for seconds in report.seconds)
        if finished.ok and len(values) == count:
            return values
        # The harness's own timer ends it by SIGALRM.
        timed_out = finished.timed_out or finished.signal == "SIGALRM"
        if timed_out and not values:
            message = f"run: stopped after {finished.seconds:.3g} s, the limit of a run being {first:.3g} s"
            raise StageFailure("timeout", message, bound=first * limits.scale)
        word, message = self._explain(finished, report, timed_out)
        raise StageFailure(word, f"run: {message}", repeats=values)

    def discard(self) -> None:
        """Remove the executable."""
        self.program.unlink(missing_ok=True)

    def _run(self, count: int, run_limits: tuple[float, float, float]) -> Finished:
        limits = self.limits
        counts = (limits.warmup, count)
        return process.run_command(
            [
                *(str(self.program), "arrays.bin", repr(self.tolerance), *map(str, counts)),
                *(f"{seconds:.6f}" for seconds in run_limits),
            ],
            # A second line of defence, 10 s later than the harness's own limits.
            timeout=limits.timeout * sum(counts) + 10.0,
            folder=self.program.parent,
            environment=self.environment,
            memory=limits.memory,
            cpus=limits.cpus,
            stop=self.stop,
        )

    def _explain(
        self, finished: Finished, report: HarnessReport, timed_out: bool
    ) -> tuple[str, str]:
        """Return the failure word and the message of a run that has not returned all its times."""
        if timed_out:
            return "timeout", f"a repeat was stopped after {self.limits.timeout:g} s"
        if finished.code == _EXIT_WRONG_RESULT and report.error is not None:
            return "correctness", (
                f"differs from the reference by {report.error:.3g}, tolerance {self.tolerance:.3g}"
            )
        return "runtime", finished.describe()


@dataclass(frozen=True)
class HarnessReport:
    """The harness's output.

    Attributes:
        seconds: Time of each run after the warm-up.
        error: Largest error of the result, if it exceeds the tolerance.
    """

    seconds: tuple[float, ...]
    error: float | None


def read_report(out: str) -> HarnessReport:
    """Read the lines that the harness has printed; a line cut off by a crash is skipped."""
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
    return HarnessReport(tuple(seconds), error)
