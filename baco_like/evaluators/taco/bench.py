"""Has taco write a kernel, compiles it, checks and times it, with operands and a harness that are made once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from baco_like.evaluators.bench import StageFailure
from baco_like.evaluators.kernels.harnessed import HarnessedKernel, Limits
from baco_like.evaluators.kernels.workshop import Workshop
from baco_like.evaluators.taco import tensors
from baco_like.evaluators.taco.harness import HARNESS, caller
from baco_like.evaluators.taco.templates import Template
from baco_like.exceptions import EvaluatorError
from baco_like.records.trial import Trial


@dataclass(frozen=True)
class Operands:
    """What a kernel gets.

    Attributes:
        template: The kernel.
        size: Rows of the sparse operand, where it is made.
        tensor: A file with it, or None.
        columns: Size of the index that is in no sparse operand.
        seed: Of what is made.
    """

    template: Template
    size: int
    tensor: Path | None
    columns: int
    seed: int

    def write(self, path: Path) -> float:
        """Write the reference and the operands for the harness; return the largest magnitude of the reference.

        Raises:
            EvaluatorError: The file cannot be read, or has another order than the kernel's operand.
        """
        template, rng = self.template, np.random.default_rng(self.seed)
        formats = template.formats["B"]
        sparse = self._read() or tensors.made(template.shape(self.size), rng)
        dense = template.operands(sparse, self.columns, rng)
        expected = template.expected(sparse, dense)
        parts = [
            tensors.dense(expected),
            tensors.stored(sparse, formats),
            *map(tensors.dense, dense),
        ]
        with path.open("wb") as file:
            file.write(np.int64(len(parts)).tobytes())
            for part in parts:
                file.write(part.to_bytes())
        return float(np.abs(expected).max(initial=0.0)) or 1.0

    def _read(self) -> tensors.Sparse | None:
        if self.tensor is None:
            return None
        sparse, wanted = tensors.read(self.tensor), len(self.template.formats["B"])
        if len(sparse.shape) != wanted:
            raise EvaluatorError(
                f"tensor {str(self.tensor)!r} has {len(sparse.shape)} dimensions, the kernel wants {wanted}"
            )
        return sparse


@dataclass(frozen=True)
class Tools:
    """The programs.

    Attributes:
        taco: Path of taco.
        compiler: Path of the C compiler.
        flags: Its flags for kernels.
        build_timeout: Seconds for each of the two.
    """

    taco: str
    compiler: str
    flags: tuple[str, ...]
    build_timeout: float


class TacoBench:
    """Builds kernels from configurations.

    A schedule that taco refuses, or whose C does not compile, is the failure ``compile``, a result that differs from
    SciPy's ``correctness``, a crash ``runtime`` with its signal.

    Args:
        operands: What kernels get.
        tools: The programs.
        limits: How kernels are measured.
        tolerance: Largest difference from the reference, relative to its largest element.
        complete: Returns a configuration with what the space has left out, or raises `EvaluatorError`.
    """

    def __init__(
        self,
        operands: Operands,
        tools: Tools,
        limits: Limits,
        tolerance: float,
        complete: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    ) -> None:
        self._operands, self._tools, self._limits = operands, tools, limits
        self._complete = complete
        write = partial(_write, operands, tolerance)
        self._workshop = Workshop(tools.compiler, tools.build_timeout, HARNESS, write)

    def build(self, trial: Trial, seconds: dict[str, float]) -> HarnessedKernel:
        """Have the kernel of a configuration written and compiled.

        Raises:
            StageFailure: Taco or the compiler fails on it.
            EvaluatorError: A value is not understood, the operands cannot be made, or the harness does not compile.
        """
        config = self._complete(trial)
        workshop = self._workshop
        tolerance = workshop.prepared()
        folder, name = workshop.folder, f"kernel-{trial.id}"
        source, call, program = (folder / end for end in (f"{name}.c", f"{name}-call.c", name))
        call.write_text(caller(source.name, len(self._operands.template.formats)), encoding="ascii")
        try:
            self._built(self._taco_command(config, source), "taco", seconds)
            files = (call.name, "harness.o", "-lm", "-o", program.name)
            command = [self._tools.compiler, *self._tools.flags, *files]
            self._built(command, "build", seconds)
        except BaseException:
            program.unlink(missing_ok=True)
            raise
        finally:
            for file in (source, call):
                file.unlink(missing_ok=True)
        inputs, threads = ("operands.bin",), _threads(config)
        return HarnessedKernel(
            program, inputs, tolerance, self._limits, seconds, workshop.stop, threads
        )

    def close(self) -> None:
        """End programs that are running, and remove the temporary folder."""
        self._workshop.close()

    def _taco_command(self, config: Mapping[str, Any], source: Path) -> list[str]:
        template = self._operands.template
        formats = [f"-f={name}:{letters}" for name, letters in template.formats.items()]
        schedule = f"-s={template.commands(config)}"
        end = ("-print-nocolor", f"-write-source={source.name}")
        return [self._tools.taco, template.expression, *formats, schedule, *end]

    def _built(self, command: Sequence[str], stage: str, seconds: dict[str, float]) -> None:
        finished = self._workshop.run(command)
        seconds["compile"] = seconds.get("compile", 0.0) + finished.seconds
        if not finished.ok:
            word = "timeout" if finished.timed_out else "compile"
            raise StageFailure(word, f"{stage}: {finished.describe()}")


def _write(operands: Operands, tolerance: float, folder: Path) -> float:
    """Write operands and reference; return the absolute tolerance."""
    return tolerance * operands.write(folder / "operands.bin")


def _threads(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables that OpenMP's ``schedule(runtime)``, which taco writes, reads."""
    return {
        "OMP_NUM_THREADS": str(config["omp_threads"]),
        "OMP_SCHEDULE": f"{config['omp_schedule']},{config['omp_chunk']}",
        "OMP_DYNAMIC": "false",
    }
