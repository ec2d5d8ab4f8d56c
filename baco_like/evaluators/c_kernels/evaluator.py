"""The evaluator of kernels in C: compiles them as shared objects, which a worker loads in a child process each."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from typing_extensions import override

from baco_like.evaluators._processes.exchange import Reply
from baco_like.evaluators._processes.process import Stop, check_cpus, run_command
from baco_like.evaluators._processes.temporary import (
    LazyFolder,
    hash_program,
    locate_program,
    require_program,
)
from baco_like.evaluators.command.metrics import section_bytes
from baco_like.evaluators.command.reference import ERROR
from baco_like.evaluators.kernels.problems import (
    Complete,
    completion,
    find_problem,
    load_problem,
)
from baco_like.evaluators.kernels.settings import KernelSettings, kernel_keys, read_settings
from baco_like.evaluators.kernels.timing import KernelLimits
from baco_like.evaluators.kernels.worker_bench import KernelBench, WorkerKernel, make_worker
from baco_like.evaluators.settings_table import TEXT, TEXTS, Key, RunArguments, Table, whole
from baco_like.evaluators.staged import StagedEvaluator, StageFailure
from baco_like.exceptions import EvaluatorError, Infeasible
from baco_like.records.trial import Trial
from baco_like.spaces.space import Space

_SHARED: tuple[str, ...] = ("-shared", "-fPIC", "-fno-semantic-interposition")
"""Flags of a shared object in which functions call each other as in a program; missing functions are an error."""

if sys.platform == "linux":
    _SHARED = (*_SHARED, "-Wl,-z,defs")

SIZE = "size"
"""Name of a fidelity parameter, or of a descriptor of tasks, that replaces the setting ``size``."""

PROGRAM_BYTES = "program_bytes"
"""The metric of every compiled kernel: the bytes of code and data in its shared object."""


@dataclass(frozen=True)
class CKernelSettings(KernelSettings):
    """How kernels are compiled and measured.

    Attributes:
        compiler: Name or path of the C compiler.
        flags: Flags of the compiler for every kernel, before the flags of the configuration.
    """

    build_timeout: float = 60.0
    compiler: str = "cc"
    flags: tuple[str, ...] = ()


KEYS = (
    *kernel_keys(CKernelSettings, {"compiler": TEXT, "flags": TEXTS}),
    Key("ahead", whole(0), "builds during a measurement", default=0),
)


class CKernelBench(KernelBench):
    """Compiles kernels; a worker measures each in a child process.

    Failures: if the problem raises `Infeasible`, its word (``runtime`` unless it names another); all others as for
    `KernelBench`. Nothing of an earlier kernel is left in the process of a kernel.

    Args:
        problem: The problem file.
        settings: How kernels are compiled and measured.
        path: Path of the problem file.
        compiler: Path of the compiler.
        complete: Returns a configuration with the parameters that the space leaves out.
        has_sizes: Whether each configuration has its own size of the problem, the parameter ``size``.
    """

    least_timeout = 1e-3  # the kernel's own timer would never fire at 0
    grace = 10.0

    def __init__(
        self,
        problem: ModuleType,
        settings: CKernelSettings,
        path: Path,
        compiler: str,
        complete: Complete,
        has_sizes: bool = False,
    ) -> None:
        limits = KernelLimits(
            max(settings.timeout, self.least_timeout),
            settings.build_timeout,
            max(settings.timeout, self.least_timeout),
            settings.warmup,
        )
        worker = make_worker(
            "baco_like.evaluators.c_kernels.programs:serve",
            settings,
            path,
            limits,
            compiler=[compiler, *settings.flags],
        )
        super().__init__(worker, limits, settings.scale, complete)
        self.has_sizes, self.problem, self.settings = has_sizes, problem, settings
        self._compiler, self._folder, self._stop = compiler, LazyFolder(), Stop()
        self._open_lock, self._sizes = threading.Lock(), set[int]()  # sizes whose inputs are made

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The names of all metrics."""
        return (PROGRAM_BYTES, ERROR)

    @override
    def build(self, trial: Trial, seconds: dict[str, float]) -> CProgram:
        """Compile the kernel of a configuration.

        Raises:
            StageFailure: The configuration has no correct program, or the compiler fails.
            EvaluatorError: A value is not allowed, an argument is not supported, or the harness cannot be compiled.
        """
        given = dict(trial.config)
        size = int(given.pop(SIZE)) if self.has_sizes else self.settings.size
        config, problem = self.complete(given), self.problem
        self._open(size)
        folder, name = self._folder.path, f"kernel-{trial.id}"
        # All sources have the same name, which compilers write into the program: equal programs are equal files.
        sources, program = folder / f"{name}.source", folder / name
        flags = list(problem.flags(config)) if hasattr(problem, "flags") else []
        variables = problem.environment(config) if hasattr(problem, "environment") else {}
        started = time.perf_counter()
        try:
            sources.mkdir()
            text = problem.source(config, size)
            (sources / "kernel.c").write_text(text, encoding="utf-8")
            built = run_command(
                [
                    *(self._compiler, *self.settings.flags, *flags, *_SHARED),
                    *("kernel.c", "-lm", "-o", f"../{name}"),
                ],
                timeout=self.settings.build_timeout,
                folder=sources,
                # It is removed with what a killed compiler leaves there.
                environment={"TMPDIR": str(sources)},
                stop=self._stop,
            )
        except Infeasible as error:
            raise StageFailure(error.failed, str(error)) from None
        finally:
            shutil.rmtree(sources, ignore_errors=True)
            seconds["compile"] = time.perf_counter() - started
        if not built.ok:
            program.unlink(missing_ok=True)
            word = "timeout" if built.timed_out else "compile"
            raise StageFailure(word, f"build: {built.describe()}")
        request = {"program": str(program), "size": size, "environment": dict(variables)}
        identity = hash_program(program, size, sorted(variables.items()))
        return CProgram(self, request, seconds, identity=identity)

    @override
    def close(self) -> None:
        """End running compilers and the worker, and remove the folder; the next build prepares everything again."""
        self._stop.set()
        self._stop = Stop()
        super().close()
        self._folder.close()
        self._sizes = set()

    def _open(self, size: int) -> None:
        """Let the worker make the inputs of a size before any kernel is compiled: what it refuses ends the run."""
        with self._open_lock:
            if size not in self._sizes:
                reply = self.request({}, size=size)
                if not reply.ok:
                    raise EvaluatorError(f"the problem cannot be opened: {reply.describe()}")
                self._sizes.add(size)


class CProgram(WorkerKernel):
    """A compiled kernel; its configuration is the request that measures it."""

    @override
    def _request_measurement(self, request: Mapping[str, Any]) -> Reply:
        check = self.check_measurement
        reply = self.bench.request(self.seconds, check, **self.config, **request)
        if reply.ok and "ended" in reply.value:
            # The kernel's own timer ends it by SIGALRM.
            reply.timed_out = reply.value["ended"] == "SIGALRM"
            limit = request["launch"] if reply.stage == "launch" else request["timeout"]
            reply.ended = (
                f"stopped after {limit:.3g} s"
                if reply.timed_out
                else f"ended by {reply.value['ended']}"
            )
        return reply

    @override
    def check_measurement(self, reply: Reply) -> None:
        if not (isinstance(reply.value, dict) and isinstance(reply.value.get("ended"), str)):
            super().check_measurement(reply)

    @override
    def metrics(self) -> dict[str, float]:
        """Return the bytes of code and data in the program, and the largest error of the result."""
        return {
            PROGRAM_BYTES: float(count_bytes(Path(self.config["program"]))),
            **super().metrics(),
        }

    @override
    def discard(self) -> None:
        """Remove the program."""
        Path(self.config["program"]).unlink(missing_ok=True)


class CKernelEvaluator(StagedEvaluator):
    """Compiles and times kernels in C.

    Args:
        space: Its parameters are passed to the problem's ``source``.
        settings: How kernels are compiled and measured.
        folder: Folder of the problem file, if its path is relative.
        ahead: Number of kernels that are compiled while another is measured.

    Raises:
        RunFileError: The problem is not a Python file.
        EvaluatorError: The file does not exist, it does not have a parameter or a value of the space, or the compiler
            is missing or lacks a flag that the space needs.
    """

    def __init__(
        self, space: Space, settings: CKernelSettings, folder: Path = Path(), ahead: int = 0
    ) -> None:
        path = find_problem(settings.problem, folder)
        described = () if space.tasks is None else space.tasks.descriptor_names
        has_sizes = SIZE in described or (
            space.fidelity is not None and space.fidelity.name == SIZE
        )
        own = {n: p for n, p in space.parameters.items() if not (has_sizes and n == SIZE)}
        complete = completion(path, settings.constants, own)
        problem = load_problem(path, settings.constants)
        compiler = require_program(settings.compiler, Path.cwd(), "[evaluator] compiler")
        if hasattr(problem, "requirements"):
            _require_flags(compiler, problem.requirements(own))
        if settings.cpus is not None:
            check_cpus(settings.cpus, "cpus")
        self.source_name = f"{path.stem}.c"
        self._c_bench = CKernelBench(problem, settings, path, compiler, complete, has_sizes)
        super().__init__(self._c_bench, settings.repeats, ahead)

    def source(self, config: Mapping[str, Any]) -> str:
        """Return the C source of a configuration.

        Raises:
            EvaluatorError: A value is not allowed, or the configuration has no correct program.
        """
        bench = self._c_bench
        try:
            given = dict(config)
            size = int(given.pop(SIZE)) if bench.has_sizes else bench.settings.size
            text: str = bench.problem.source(bench.complete(given), size)
        except Infeasible as error:
            raise EvaluatorError(str(error)) from None
        return text


def from_table(table: Table, run: RunArguments) -> CKernelEvaluator:
    """Return the evaluator that the ``[evaluator]`` table of a run file describes.

    Args:
        table: Keys as in `KEYS`.
        run: The parameters of its space are passed to the problem's ``source``; its unit is one of time; relative paths
            of the problem and the compiler begin at its folder.

    Raises:
        RunFileError: A key is unknown, missing or wrong.
        EvaluatorError: As for `CKernelEvaluator`.
    """
    fields = read_settings(table, KEYS, run)
    ahead = fields.pop("ahead")
    fields["compiler"] = locate_program(fields["compiler"], run.folder)
    return CKernelEvaluator(run.space, CKernelSettings(**fields), run.folder, ahead)


def count_bytes(program: Path) -> int:
    """Return the bytes of code and data in an executable; a file in another format than ELF counts as a whole."""
    try:
        sections = section_bytes(program)
    except ValueError:
        return program.stat().st_size
    return sections["text"] + sections["data"]


def _require_flags(compiler: str, flags: Sequence[str]) -> None:
    if not flags:
        return
    try:
        finished = run_command([compiler, *flags, "-fsyntax-only", "-x", "c", "-"], timeout=60)
        message = "" if finished.ok else finished.err.strip() or finished.describe()
    except OSError as error:
        message = str(error)
    if message:
        raise EvaluatorError(
            f"the compiler {compiler!r} does not accept {' '.join(flags)}, which a parameter of the space needs; "
            f"leave the parameter out or name another compiler ({message.splitlines()[0][:200]})"
        )
