"""How a kernel is timed: compile it, launch it, compare its result and time its runs, all in a worker process.

This module runs in the worker. The languages differ only in how a kernel is made and launched (`CompiledKernel`) and in
their memory (`baco_like.evaluators.kernels.arguments.Block`). The requests come from
`baco_like.evaluators.kernels.bench`.

One measurement is a first launch with other inputs than the timed ones, warm-ups, and the timed samples, each with a
check. The outputs are filled before each launch, so that a launch that skips its work is found. A kernel that keeps the
result of an earlier launch is wrong in the second one; if it knows the inputs again, the first launch takes longer than
the others.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import operator
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco_like._checks import as_tuple
from baco_like.evaluators._processes.worker_main import Report
from baco_like.evaluators.kernels.arguments import CLEAREST, FIRST, LATER, TIMED, Arguments

LONGEST = 1e9
"""Seconds, 30 years; JSON has no infinity."""

_LEAST_STEPS = 100
"""Steps of the clock that a sample takes at least: the error of one step is then 1 % (Google Benchmark, too, makes a
sample longer by more launches)."""

_MOST_LAUNCHES = 1000
"""Largest number of launches in a sample."""

_LONG = 1e-3
"""Seconds of a first launch above which one launch is long enough for a sample; caches are cold in the first one."""

_COARSE_STEPS = 10
"""A launch that is timed alone and takes fewer steps of the clock gets a note."""

_KEPT_RATIO, _KEPT_SECONDS = 1.5, 1e-4
"""A launch is clearly longer than another if it takes more than this factor, and these seconds more."""

_DELAYED = 0.05
"""Share of a sample's time in which it waits for a processor above which it is measured again."""

_BUSY = 0.5
"""A thread that runs or waits for a processor for more than this share of a sample's time needs a CPU for itself."""

_LONGEST_PAUSE = 0.1
"""Seconds before that, at most: other processes may end, and a process that has slept is mostly served first."""

_ALLOCATED = 0x7A
"""Byte that fills what `malloc` returns in the first launch: large numbers, where new memory mostly has zeros."""

_M_PERTURB = -6
"""Parameter of ``mallopt`` of glibc: the complement of the byte that fills memory."""

KEPT = "the kernel keeps results of earlier launches"
"""Begin of the problem of such a kernel."""


def is_seconds(value: Any) -> bool:
    """Whether a value that a kernel's process has sent is a possible duration in seconds."""
    return isinstance(value, float) and 0 <= value <= LONGEST


class CompiledKernel:
    """A compiled kernel with its arguments in memory.

    Attributes:
        identity: Hash of the program and of all else that its times depend on (`hash_parts`); None if it is unknown.
        step: Seconds between two values of the clock by which launches are timed.
        is_on_host: Whether the CPUs of this machine run it.
        arguments: Its arguments in memory; other kernels may use them in between.
        constant: Numbers of the arguments that its source declares constant.
        notes: What the user should know about its source, by kind.
    """

    arguments: Arguments
    constant: Sequence[int] = ()
    notes: Mapping[str, str] = MappingProxyType({})
    identity: str | None = None
    step: float = 1e-9
    is_on_host: bool = True

    @property
    def most_launches(self) -> int:
        """Launches that can be timed as one, each with its own copy of the arrays that it writes."""
        return 1

    def time(self, launches: int, limit: float) -> float:
        """Launch the kernel, wait for its end, and return the seconds of all launches.

        Args:
            launches: 1 to `most_launches`.
            limit: Seconds that they may take. A kernel that can enforce it ends its process.
        """
        raise NotImplementedError

    def meter(self, seconds: float) -> tuple[float, float]:
        """Return the joules of a run and the mean power in watts, from runs for so many seconds."""
        raise NotImplementedError

    def problem(self) -> str | None:
        """Return what is wrong with the last launch besides the values of the arguments."""
        return None

    def digests(self) -> Mapping[int, int]:
        """Return hashes of the outputs of the last launch, by number of the argument, where they take little time."""
        return {}

    def metrics(self) -> Mapping[str, float]:
        """Return numbers that are known besides the time, such as registers."""
        return {}

    def build_metrics(self) -> Mapping[str, float]:
        """Return numbers that are known before the first launch."""
        return {}


@dataclass(frozen=True)
class KernelLimits:
    """Limits of the stages, in seconds, and the accepted errors.

    Attributes:
        timeout: Limit of one run.
        build_timeout: Limit of the compilation.
        launch_timeout: Limit of the first launch; some drivers compile during it.
        warmup: Launches before the timed ones, at least 1: the result of the first one is checked.
    """

    timeout: float
    build_timeout: float
    launch_timeout: float
    warmup: int = 1


class KernelServer:
    """Request handler of a worker: compiles kernels and measures them.

    Args:
        compile: Compiles the kernel of a configuration; all kernels may share their arguments.
        limits: Limits of the stages.
    """

    def __init__(
        self,
        compile: Callable[[Mapping[str, Any]], CompiledKernel],
        limits: KernelLimits,
    ) -> None:
        self._compile, self._limits = compile, limits
        self._kernels: dict[int, Measurement] = {}

    def __call__(self, request: Mapping[str, Any], report: Report) -> Mapping[str, Any] | None:
        """Compile a configuration, or measure a compiled kernel.

        Args:
            request: To compile: ``config``, the ``key`` under which to keep the kernel, and ``drop``, a list of keys
                that are not needed any more. To measure: ``key`` and the request of a `Measurement`.
            report: Receives the stages, and the time of each run as a note.

        Returns:
            For a compilation ``{"identity": ..., "build": ...}``, see `CompiledKernel`. For a measurement see
            `Measurement`. None if there is no kernel under ``key``.
        """
        if "config" not in request:
            measurement = self._kernels.get(request["key"])
            return None if measurement is None else measurement(request, report)
        report.stage("compile", self._limits.build_timeout)
        for key in request["drop"]:  # unloading counts as time of the compiler
            self._kernels.pop(key, None)
        # JSON has turned permutations into lists.
        config = {name: as_tuple(value) for name, value in request["config"].items()}
        kernel = self._compile(config)
        self._kernels[request["key"]] = Measurement(kernel, self._limits)
        return {"identity": kernel.identity, "build": dict(kernel.build_metrics())}


class Measurement:
    """Launches a kernel, checks its results and times it.

    Args:
        kernel: The kernel.
        limits: Limits of the stages.
        is_placed: Whether the arguments have the values of the first launch.
    """

    _last: Measurement | None = None  # whose kernel the arguments belong to

    def __init__(
        self, kernel: CompiledKernel, limits: KernelLimits, is_placed: bool = False
    ) -> None:
        self.kernel, self._arguments, self._limits = kernel, kernel.arguments, limits
        self._is_placed = is_placed
        self._launches = 0  # of a sample; 0 before the first launch
        self._checks = 0
        self._first = np.zeros(2)  # times of the first launch
        self._process = os.getpid()
        self._is_compared = False  # with other new inputs
        self._delay = 0.0  # share of the last sample in which a thread has waited for a processor
        self._is_crowded = False  # by its own threads
        self._delays: list[float] = []
        self._notes = dict(kernel.notes)
        self._error = 0.0

    def __call__(self, request: Mapping[str, Any], report: Report) -> dict[str, Any]:
        """Measure the kernel; the first call also launches it before, with other inputs, and checks that result.

        Args:
            request: ``count`` (number of samples), ``launch`` and ``timeout`` (limits in seconds, of the first launch
                and until a time is known), ``enough`` (a run longer than these seconds is the last one), ``near`` (a
                kernel with a longer time is not recommended) and ``grace`` (seconds that are added to the limits of the
                stages where the kernel enforces its own). To measure the energy: ``count`` and ``meter``, the seconds
                of each measurement.
            report: Receives the stages ``launch`` (the first run), ``check`` and ``run``, and the time of a launch as a
                note for each sample.

        Returns:
            ``problem``: a description of the wrong result, or None if the result is correct; ``error``: its largest
            relative error; ``notes``: what else the user should know, by kind; ``metrics``: those of the kernel.
        """
        is_first = not self._launches
        if not self._is_placed:
            self._arguments.place(
                FIRST if is_first else TIMED, is_new=Measurement._last is not self
            )
        Measurement._last, self._is_placed = self, False
        if "meter" in request:
            return self._read_energy(request, report)
        if is_first and (problem := self._prepare(request, report)) is not None:
            return self._answer(problem)
        samples, limit, spare = [], request["timeout"], request["count"]
        found: list[tuple[float, NDArray[np.float64]]] = []  # the present sample, measured again
        is_last = False
        while not is_last:
            report.stage("run", limit * self._launches + request["grace"])
            sample, limit = self._sample(limit), self._limits.timeout
            found.append((self._delay, sample))
            is_again = self._delay > _DELAYED and spare > 0 and not self._is_crowded
            if not is_again:
                delay, sample = min(found, key=operator.itemgetter(0))
                samples.append(sample)
                self._delays.append(delay)
                found, seconds = [], float(sample[0])
                report.note(seconds)
                is_last = len(samples) == request["count"] or seconds > request["enough"]
            # Again: a race may show only in a later launch, and a launch between the first and the last may skip work.
            if (problem := self._check(report, has_inputs=is_last)) is not None:
                return self._answer(problem)
            if is_again:
                spare -= 1
                time.sleep(min(float(sample[0]), _LONGEST_PAUSE))
        if (delay := sorted(self._delays)[len(self._delays) // 2]) > _DELAYED:
            self._notes["delayed"] = (
                f"the launches have waited for a processor for {delay:.0%} of their time, also when they were measured "
                "again: other processes run, or a launch has more threads than there are CPUs; the value is too large, "
                "and a race between threads that take turns does not show"
            )
        else:
            self._notes.pop("delayed", None)
        return self._answer(self._find_kept_results(samples, request, report))

    def _read_energy(self, request: Mapping[str, Any], report: Report) -> dict[str, Any]:
        """Note the joules of a run and the watts, in turn."""
        report.stage("energy", (request["meter"] + self._limits.timeout) * request["count"])
        for _ in range(request["count"]):
            for number in self.kernel.meter(request["meter"]):
                report.note(number)
        return self._answer(self._check(report))

    def _prepare(self, request: Mapping[str, Any], report: Report) -> str | None:
        """Launch and check for the first time, run the warm-ups, and choose the launches of a sample."""
        arguments, grace = self._arguments, request["grace"]
        report.stage("launch", request["launch"] + grace)
        self._launches = 1
        arguments.restore()  # the pages of the outputs are made before the launch
        _fill_allocations(_ALLOCATED ^ 0xFF)
        try:
            self._first = self._launch_once(request["launch"])
        finally:  # the process may measure other kernels, too
            _fill_allocations(0)
        problem, seed = self._check(report), arguments[0].seed
        arguments.place()
        limit = request["timeout"]
        if problem is not None:
            # Mostly the timed inputs, too, have a wrong result, and their message is the same in each run.
            report.stage("launch", request["launch"] + grace)
            arguments.restore(CLEAREST)
            self._launch(1, request["launch"])
            return self._check(report) or f"{problem}, with inputs of seed {seed}"
        is_short = bool(self._first[0] < _LONG)
        for number in range(max(self._limits.warmup - 1, is_short)):
            report.stage("run", limit + grace)
            sample = self._sample(limit)
            if not number and (problem := self._check(report)) is not None:
                return problem
        while is_short and self._launches < _MOST_LAUNCHES:
            steps = sample[0] * self._launches / self.kernel.step
            if steps >= _LEAST_STEPS:
                break
            growth = min(1.2 * _LEAST_STEPS / max(steps, 1.0), 10.0)
            self._launches = min(math.ceil(self._launches * growth), _MOST_LAUNCHES)
            report.stage("run", limit * self._launches + grace)
            sample = self._sample(limit)
        return None

    def _sample(self, limit: float) -> NDArray[np.float64]:
        """Return the seconds of a launch and those of the processor, the means of the launches of a sample."""
        batch = max(1, min(self._launches, self.kernel.most_launches))
        rounds = math.ceil(self._launches / batch)
        times, started = np.zeros(2), time.perf_counter()
        before = _thread_seconds() if self.kernel.is_on_host else {}
        for _ in range(rounds):
            self._arguments.restore()
            times += self._launch(batch, limit * batch)
        if self.kernel.is_on_host:
            spent = _since(before) / (time.perf_counter() - started)
            self._delay = float(spent[:, 1].max())
            # Then it would wait again, on an idle machine, too.
            self._is_crowded = int((spent.sum(axis=1) > _BUSY).sum()) > _count_cpus()
        steps = times[0] / rounds / self.kernel.step
        if steps < _COARSE_STEPS:
            self._notes["resolution"] = (
                f"a launch is timed by {steps:.3g} steps of {self.kernel.step:.3g} s of the clock: its time is near or "
                "below the resolution, so let one launch do more work"
            )
        else:
            self._notes.pop("resolution", None)
        return times / (rounds * batch)

    def _launch_once(self, limit: float) -> NDArray[np.float64]:
        """Return the seconds of a launch and those of the processor, without those that a thread has waited for one.

        Other threads may spin meanwhile, as in a barrier of OpenMP, so that the processor's seconds include the wait.
        """
        before = _thread_seconds() if self.kernel.is_on_host else {}
        times = self._launch(1, limit)
        if self.kernel.is_on_host:
            times[0] = max(times[0] - float(_since(before)[:, 1].max()), 0.0)
        return times

    def _launch(self, launches: int, limit: float) -> NDArray[np.float64]:
        started = time.process_time()
        seconds = self.kernel.time(launches, limit)
        processor = time.process_time() - started
        if os.getpid() != self._process:
            os._exit(1)  # the kernel has forked, and its child has come back from it, too
        if not 0 <= seconds < math.inf:
            raise ArithmeticError(f"a launch took {seconds} s by the clock")
        return np.array((seconds, processor))

    def _check(self, report: Report, *, has_inputs: bool = True) -> str | None:
        """Return the problem of the last launch."""
        report.stage("check", self._limits.build_timeout)
        if (problem := self.kernel.problem()) is not None:
            return problem
        arguments = self._arguments
        # The first launch with each of two inputs: a kernel may change inputs that others leave unchanged.
        is_first = self._checks < 2
        has_inputs, digests = is_first or has_inputs, self.kernel.digests()
        arguments.constant = self.kernel.constant
        found = arguments.check(is_first=is_first, has_inputs=has_inputs, digests=digests)
        self._checks += 1
        if arguments.draw == TIMED:
            self._error = max(self._error, found.error)
        if restored := sorted(arguments.restored):
            self._notes["restored"] = (
                f"the kernel changes argument {', '.join(map(str, restored))}, an input: it gets its value back before "
                "each launch"
            )
        return found.problem

    def _find_kept_results(
        self, samples: Sequence[NDArray[np.float64]], request: Mapping[str, Any], report: Report
    ) -> str | None:
        """Return the problem of a kernel that keeps results by their inputs, and is therefore fast with those it knows.

        The first launch had new inputs. If it was clearly longer than the timed ones, its caches may have been cold, so
        that more launches follow, with other new inputs. If their first one is clearly longer, too, and a later one is
        not, the kernel keeps results. If no later one is faster, its time depends on the inputs.
        """
        if self._arguments.are_fixed:
            self._notes["same inputs"] = (
                "all seeds have the same inputs, so whether the kernel keeps results is not checked"
            )
            return None
        # numpy.median imports 20 ms of modules, here in the process of each kernel.
        usual = np.sort(samples, axis=0)[(len(samples) - 1) // 2]
        least = min(seconds for seconds, _ in samples)
        # In a kernel that is not recommended anyway, the search would cost more than it is worth.
        is_slow = least > min(request["enough"], request["near"])
        if self._is_compared or is_slow or not _is_longer(self._first, usual):
            return None
        self._is_compared = True
        launches: list[NDArray[np.float64]] = []
        # A kernel may keep only the results of inputs that it sees again.
        for _ in range(2 + len(samples)):
            report.stage("run", self._limits.timeout + request["grace"])
            self._arguments.place(LATER)
            self._arguments.restore()
            launches.append(self._launch_once(self._limits.timeout))
            first, last = launches[0], launches[-1]
            if (problem := self._check(report)) is not None:
                return f"{problem}, with inputs of seed {self._arguments[0].seed}"
            if not _is_longer(first, usual):
                return None
            if _is_longer(first, last):
                return f"{KEPT}: the first launch with new inputs takes {first[0]:.3g} s, a later one {last[0]:.3g} s"
        self._notes["new inputs"] = (
            f"a launch with inputs of seed {self._arguments[0].seed} takes {first[0]:.3g} s, one with the timed inputs "
            f"{usual[0]:.3g} s: the time depends on the inputs, or the kernel keeps results"
        )
        return None

    def _answer(self, problem: str | None) -> dict[str, Any]:
        return {
            "problem": problem,
            "error": self._error if math.isfinite(self._error) else None,  # JSON has no infinity
            "notes": self._notes,
            "metrics": {} if problem is not None else dict(self.kernel.metrics()),
        }


def _is_longer(launch: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    """Whether a launch is clearly longer than another, not only because another process has delayed it.

    Args:
        launch: Its seconds by the clock and those of the processor.
        other: Those of the other.
    """
    return bool((launch - other > max((_KEPT_RATIO - 1) * other[0], _KEPT_SECONDS)).all())


def _thread_seconds() -> dict[str, NDArray[np.float64]]:
    """Return the seconds that each thread of this process has run, and has waited for a processor, where known."""
    found = {}
    for file in Path("/proc/self/task").glob("*/schedstat"):
        with suppress(OSError):  # the thread has ended
            found[file.parent.name] = np.array(file.read_text().split()[:2], np.float64) * 1e-9
    return found


def _count_cpus() -> int:
    """Return the number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def _since(before: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return how much `_thread_seconds` has grown, a row a thread; without threads a row of zeros."""
    now = _thread_seconds()
    rows = [seconds - before.get(thread, 0.0) for thread, seconds in now.items()]
    return np.array(rows) if rows else np.zeros((1, 2))


def _fill_allocations(complement: int) -> None:
    """Let ``malloc`` fill the memory that it returns; 0: let it leave the memory as it is. Only glibc can."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_PERTURB, complement)


def hash_parts(*parts: object) -> str:
    """Return a hash of the text of some objects; programs with equal parts are measured once."""
    return sha256(repr(parts).encode()).hexdigest()[:32]


ROTATE = "rotate"
"""Value of ``flush``: each launch has another copy of all arrays, together larger than the caches."""


def largest_cache() -> int:
    """Return the bytes of the processor's largest cache."""
    sizes = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    return max((int(s.read_text().strip().rstrip("K")) for s in sizes), default=32 << 10) << 10


class CacheFlush:
    """Empties the caches of the processor: writes to a buffer twice as large as the last cache.

    The caches that one core has for itself are emptied on the calling core only.
    """

    def __init__(self) -> None:
        self._buffer = np.zeros(2 * largest_cache(), np.uint8)

    def __call__(self) -> None:
        """Empty the caches."""
        self._buffer += 1


@functools.cache
def host_step() -> float:
    """Return the smallest difference of two values of Python's clock, in seconds."""
    values = [time.perf_counter() for _ in range(1000)]
    return min((b - a for a, b in itertools.pairwise(values) if b > a), default=1e-6)
