"""The settings of all kernels, and their bench: it measures kernels in a worker process that they may crash."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from typing_extensions import override

from baco_like._tables import TEXT, Bytes, Count, Given, Group, Natural, Positive, Table, time_scale
from baco_like.evaluators._processes.process import Cpus, check_cpus
from baco_like.evaluators._processes.worker import MESSAGE_LENGTH, Reply, Worker
from baco_like.evaluators.command.reference import ERROR
from baco_like.evaluators.comparison import Tolerances
from baco_like.evaluators.kernels.problems import Complete, completion, find_problem
from baco_like.evaluators.kernels.timing import KEPT, LONGEST, KernelLimits, is_seconds
from baco_like.evaluators.protocol import KIND, RunArguments
from baco_like.evaluators.repeats import Repeats
from baco_like.evaluators.staged import ONE_BUILD, Builds, Built, StageFailure
from baco_like.exceptions import EvaluatorError
from baco_like.records.objective_values import finite_number
from baco_like.records.trial import Trial
from baco_like.spaces.space import Space

FIVE_REPEATS = Repeats(5)

S = TypeVar("S", bound="KernelSettings")


@dataclass(frozen=True)
class KernelSettings(Tolerances):
    """How kernels are compiled and measured, whatever their language.

    Attributes:
        problem: Path of the problem file.
        size: Size of the problem, passed to the file's functions: rows of a matrix, number of points.
        repeats: How many runs are measured after the warm-up.
        builds: Builds for each measurement, and the numbers that are kept of them.
        timeout: Limit of one run, in seconds.
        build_timeout: Limit of the compilation, in seconds.
        input_seed: Seed of the inputs; other inputs, for one check of the kernel, have a seed that is drawn at random.
        restore: Which inputs get their values back before each launch: with ``auto`` those that the first launch has
            changed, with ``always`` all except constant ones, with ``never`` none.
        warmup: Runs before the measured ones, at least 1: the result of the first one is checked.
        flush: Whether the caches are emptied before each run; with ``rotate`` the runs use copies of all arrays in
            turn, at most 64, together larger than twice the last cache.
        scale: Units of the objective in one second: 1e3 for milliseconds.
        constants: New values for constants of the problem file.
        memory: Limit of the memory of the process that runs the kernel; a number is in bytes.
        cpus: CPUs of the runs; None: all.
        environment: Environment variables of the process that runs the kernel, such as those of a device slot.
    """

    problem: Annotated[str | Path, TEXT]
    size: Count
    repeats: Group[Repeats] = FIVE_REPEATS
    builds: Group[Builds] = ONE_BUILD
    timeout: Positive = 10.0
    build_timeout: Positive = 30.0
    input_seed: Natural = 0
    restore: Literal["auto", "always", "never"] = "auto"
    warmup: Count = 1
    flush: bool | Literal["rotate"] = False
    scale: Given[float] = 1e3
    constants: Mapping[str, Any] = field(default_factory=dict)
    memory: Bytes | None = None
    cpus: Cpus | None = None
    environment: Given[Mapping[str, str]] = field(default_factory=dict)


def read_settings(
    make: type[S], table: Table, run: RunArguments, scale: float | None = None, **given: Any
) -> S:
    """Return the settings in a table.

    Args:
        make: The settings, a `KernelSettings`.
        table: The ``[evaluator]`` table.
        run: The run, with the objective's unit.
        scale: Units of the objective in one second, if the unit is not one of time.
        given: Further settings that are not in the table.

    Raises:
        RunFileError: A key is unknown, missing, or a value is wrong.
    """
    settings = table.create(make, KIND, environment=run.environment or {}, **given)
    return replace(settings, scale=time_scale(table, run.unit) if scale is None else scale)


_START_TIMEOUT = 600.0
"""Seconds until a worker enters its first stage, which sets its own limit; it may have to make inputs before."""

_MIN_TIMEOUT = 1.0
"""Seconds that a run may always take. A shorter limit would cost more than it saves: the worker has to start again."""

_COLD_FACTOR = 2.0
"""A first launch with cold caches may take this factor longer than the limit of a run."""

_FILL_SECONDS = 0.25
"""And these seconds longer: what the kernel allocates in it is filled, 1 GB in about a second."""

_START_SECONDS = 0.01
"""Instead where the process enforces its own limit and knows how much it fills (``harness.c``): threads start in it."""


def make_bench(
    serve: str,
    settings: KernelSettings,
    space: Space,
    folder: Path,
    *,
    launch_timeout: float,
    **options: Any,
) -> KernelBench:
    """Return a bench whose worker compiles and measures the kernels of one problem.

    Args:
        serve: ``module:function`` that opens the problem in the worker and returns a `KernelServer`.
        settings: The settings of the evaluator.
        space: The space; its parameters are checked against the problem.
        folder: Folder of the problem file, if its path is relative.
        launch_timeout: Limit of the first launch in seconds; some drivers compile during it.
        options: Further arguments of `KernelBench`.

    Raises:
        RunFileError: The problem is not a Python file.
        EvaluatorError: The file does not exist, or it does not have a parameter or a value of the space.
    """
    path = find_problem(settings.problem, folder)
    complete = completion(path, dict(settings.constants), space.parameters)
    return KernelBench(serve, settings, path, complete, launch_timeout=launch_timeout, **options)


class _Answer(msgspec.Struct, forbid_unknown_fields=True):
    """The answer of a `Measurement`."""

    problem: str | None
    error: float | None
    notes: dict[str, str]
    metrics: dict[str, float]


class _Compilation(msgspec.Struct, forbid_unknown_fields=True):
    """The answer of a `KernelServer` to a compilation."""

    identity: str | None
    build: dict[str, float]


class KernelBench:
    """Compiles and measures kernels in a worker, which starts again after a kernel has crashed it.

    Failures: ``compile`` if the compiler refuses the kernel, ``correctness`` for a wrong result, ``runtime`` with
    the signal or the message for a crash or a failed launch, ``timeout`` for a stage over its limit. If the kernel
    itself was stopped before any of its times is known, the outcome is censored at the limit.

    A kernel may write to memory that is not its own, and a later kernel in the same process would suffer for it.
    Therefore a crash or a wrong result, in a process that has run other kernels before, counts only if it happens
    again in a new process.

    Args:
        serve: ``module:function`` that opens the problem in the worker and returns the handler.
        settings: The settings of the evaluator.
        path: The problem file.
        complete: Returns a configuration with the parameters that the space leaves out, or raises `EvaluatorError`.
        launch_timeout: Limit of the first launch in seconds.
        environment: Environment variables of the worker.
        kernel: Makes a kernel of this bench, a configuration and the seconds by stage.
        options: Settings of this language for ``serve``, as JSON values.

    Attributes:
        least_timeout: Seconds that a run may always take.
        grace: Seconds that are added to the limits of the stages where the process of a kernel enforces its own limit.
        limits_worker: Whether the limit of memory is one of the worker; otherwise the worker sets it.
        keys: Keys of new kernels.
        dropped: Keys of kernels to drop, of which the worker learns with the next compilation.
    """

    least_timeout, grace, limits_worker = _MIN_TIMEOUT, 0.0, True

    def __init__(
        self,
        serve: str,
        settings: KernelSettings,
        path: Path,
        complete: Complete,
        *,
        launch_timeout: float,
        environment: Mapping[str, str] | None = None,
        kernel: Callable[..., WorkerKernel] | None = None,
        **options: Any,
    ) -> None:
        self.limits = KernelLimits(
            settings.timeout, settings.build_timeout, launch_timeout, settings.warmup
        )
        problem = {
            "path": str(path),
            "constants": dict(settings.constants),
            "size": settings.size,
            "seed": settings.input_seed,
            "tolerances": {name: getattr(settings, name) for name in ("tolerance", "rtol", "atol")},
        }
        common = {name: getattr(settings, name) for name in ("restore", "flush", "memory")}
        check_cpus(settings.cpus)
        self.worker = Worker(
            serve,
            settings={"problem": problem, "limits": asdict(self.limits), **common, **options},
            memory=settings.memory if self.limits_worker else None,
            cpus=settings.cpus,
            environment={**(environment or {}), **settings.environment},
        )
        self._kernel = kernel or WorkerKernel
        self.scale, self.complete = settings.scale, complete
        self.used = 0  # number (`Worker.starts`) of the last process that has run kernels
        # Builds run in several threads.
        self.keys, self.dropped = itertools.count(), deque[int]()

    def build(self, trial: Trial, seconds: dict[str, float]) -> WorkerKernel:
        """Compile a configuration.

        Raises:
            StageFailure: The compilation fails.
            EvaluatorError: A value is not allowed, or the worker does not start.
        """
        kernel = self._kernel(self, dict(self.complete(trial)), seconds)
        kernel.compile()
        return kernel

    def close(self) -> None:
        """End the worker; the next build starts another."""
        self.worker.close()

    def request(
        self,
        seconds: dict[str, float],
        check: Callable[[Reply], None] | None = None,
        **content: Any,
    ) -> Reply:
        """Send a request to the worker, and add the times of its stages.

        Raises:
            EvaluatorError: The worker refuses the problem, or does not start.
        """
        reply = self.worker.request(content, timeout=_START_TIMEOUT, check=check)
        for stage, spent in reply.seconds.items():
            seconds[stage] = seconds.get(stage, 0.0) + spent
        prefix = f"baco_like.{EvaluatorError.__name__}: "
        if reply.error is not None and reply.error.startswith(prefix):
            raise EvaluatorError(reply.error.removeprefix(prefix))
        return reply


@dataclass
class WorkerKernel(Built):
    """A kernel in the worker.

    Attributes:
        bench: Its bench.
        config: The configuration, or what else the worker needs for it.
        seconds: Wall time by stage, to be completed.
        key: The worker's key of the kernel.
    """

    bench: KernelBench
    config: dict[str, Any]
    seconds: dict[str, float]
    key: int = -1
    identity: str | None = None
    error: float = 0.0
    notes: Mapping[str, str] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)
    built: dict[str, float] = field(default_factory=dict)

    def compile(self) -> None:
        """Compile the configuration.

        Raises:
            StageFailure: The compilation fails.
        """
        reply = self._confirm(self._request_compilation)
        self.read(reply)
        self.identity, self.built = reply.value["identity"], reply.value["build"]

    @override
    def measure(self, count: int, limit: float | None, near: float) -> tuple[float, ...]:
        """Run the kernel ``count`` times; the first call runs it once before, and checks that result."""
        bench, limits = self.bench, self.bench.limits
        enough = math.inf if limit is None else limit / bench.scale
        timeout = min(limits.timeout, max(enough, bench.least_timeout))
        # A driver may compile during the first launch, which therefore has another limit.
        launch = limits.launch_timeout
        if launch == limits.timeout:
            longer = _START_SECONDS if bench.grace else _FILL_SECONDS
            launch = min(launch, _COLD_FACTOR * timeout + longer)
        request = {
            "count": count,
            "enough": min(enough, LONGEST),
            "near": min(near / bench.scale, LONGEST),
            "timeout": timeout,
            "launch": launch,
            "grace": bench.grace,
        }
        reply = self._confirm(lambda: self._request_measurement(request))
        values = self.read(reply, timeout)
        self.error = max(self.error, reply.value["error"])
        self.notes, self.numbers = reply.value["notes"], reply.value["metrics"]
        return values

    @override
    def metrics(self) -> Mapping[str, Any]:
        """Return the largest relative error of the results, and the numbers of the language."""
        return {ERROR: self.error, **self.numbers}

    @override
    def build_metrics(self) -> Mapping[str, float]:
        """Return the numbers of the compiled kernel."""
        return self.built

    @override
    def discard(self) -> None:
        """Let the worker drop the kernel."""
        self.bench.dropped.append(self.key)

    def _confirm(self, request: Callable[[], Reply]) -> Reply:
        """Send a request; after a fault that an earlier kernel, or another process, may have caused, send it again."""
        bench = self.bench
        has_run_others = bench.used == bench.worker.starts
        reply = request()
        crashed = reply.ended is not None and not reply.timed_out
        if (has_run_others and (crashed or _is_wrong(reply))) or _is_wrong(reply, KEPT):
            bench.worker.close()
            reply = request()
        return reply

    def _request_compilation(self) -> Reply:
        self.key, dropped = next(self.bench.keys), list[int]()
        with suppress(IndexError):  # another thread may have taken the last one
            while True:
                dropped.append(self.bench.dropped.popleft())
        return self.bench.request(
            self.seconds, _check_compilation, key=self.key, config=self.config, drop=dropped
        )

    def _request_measurement(self, request: Mapping[str, Any]) -> Reply:
        for _ in range(2):
            reply = self.bench.request(
                self.seconds, self.check_measurement, key=self.key, **request
            )
            if not reply.ok or reply.value is not None:
                break
            # The process that had compiled this kernel has ended meanwhile, with the kernel.
            compilation = self._request_compilation()
            if not compilation.ok:
                return compilation
        if reply.ok and reply.value is None:
            # Not the server's answer: the kernel was compiled just before.
            self.bench.worker.close()
            reply.reject("an answer without a measurement")
        self.bench.used = self.bench.worker.starts
        return reply

    def check_measurement(self, reply: Reply) -> None:
        """Refuse an answer or times that a `Measurement` does not send; the kernel itself may have written them."""
        if not all(
            is_seconds(note) and math.isfinite(note * self.bench.scale) for note in reply.notes
        ):
            raise ValueError(f"the times are {reply.notes!r:.80}")
        if reply.value is None:  # the kernel is gone with its process
            return
        answer = msgspec.convert(reply.value, _Answer)
        error = 0.0 if answer.problem is not None else answer.error
        if any(finite_number(number) is None for number in (error, *answer.metrics.values())):
            raise ValueError(f"the answer is {reply.value!r:.80}")
        if answer.problem is None and not reply.notes:
            raise ValueError("a correct kernel without a time")

    def read(self, reply: Reply, timeout: float = 0.0) -> tuple[float, ...]:
        """Return the measured values, or raise the failure.

        Args:
            reply: The reply.
            timeout: Limit of each run in seconds.
        """
        limits, scale = self.bench.limits, self.bench.scale
        repeats = tuple(seconds * scale for seconds in reply.notes)
        if _is_wrong(reply):
            raise StageFailure("correctness", f"check: {reply.value['problem']}", repeats=repeats)
        if reply.ok:
            return repeats
        word = "compile" if reply.stage == "compile" else "runtime"
        bound = None
        if reply.timed_out:
            word = "timeout"
            # A launch with a longer limit may include a compilation, and says nothing about the kernel's time.
            in_launch = reply.stage == "launch" and limits.launch_timeout == limits.timeout
            if not repeats and (in_launch or reply.stage == "run"):
                bound = timeout * scale
        message = reply.describe().strip()[:MESSAGE_LENGTH]
        raise StageFailure(word, message, bound=bound, repeats=repeats)


def _check_compilation(reply: Reply) -> None:
    """Refuse an answer to a compilation that a `KernelServer` does not send."""
    if not reply.ok:
        return
    build = msgspec.convert(reply.value, _Compilation).build
    if any(finite_number(number) is None for number in build.values()):
        raise ValueError(f"the build metrics are {build!r:.80}")


def _is_wrong(reply: Reply, begin: str = "") -> bool:
    """Whether the kernel has a problem that begins with these words."""
    problem = reply.value.get("problem") if reply.ok and reply.value is not None else None
    return problem is not None and str(problem).startswith(begin)
